"""The suite's own byte builder, sockets and runner. It shares nothing with any router's codec."""
