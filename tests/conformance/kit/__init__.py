"""The suite's own byte builder, sockets and runner; independent of any router's codec."""
