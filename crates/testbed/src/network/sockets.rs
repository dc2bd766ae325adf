//! The sockets at the ends of links: one per end, in the namespace of its node.

use crate::error::LabError;
use crate::node::Node;
use crate::plan::PORT;
use nw_sim::RunPlan;
use nw_sim::routes::RoutingGraph;
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;

/// Port of the socket for a node's first link; the others follow.
const FIRST_PORT: u16 = 20_000;
/// Receive buffer of a socket: a burst of 400 packets of 8 KB.
const BUFFER_BYTES: usize = 4 << 20;

/// Returns the URI of the face for a node's link.
pub fn face_uri(port: usize) -> String {
    format!("udp4://{}:{}", Ipv4Addr::LOCALHOST, usize::from(FIRST_PORT) + port)
}

/// The sockets of all links: 2n at the first end of link n, 2n + 1 at its other end.
#[derive(Debug)]
pub struct LinkSockets {
    /// The sockets.
    pub ends: Vec<UdpSocket>,
    /// Names of the nodes' namespaces, for their counters.
    namespaces: Vec<String>,
}

impl LinkSockets {
    /// Opens the sockets, connected to the routers' ports.
    pub fn open(plan: &RunPlan, graph: &RoutingGraph, nodes: &[Node]) -> Result<Self, LabError> {
        let mut ends: Vec<Option<UdpSocket>> = Vec::new();
        ends.resize_with(2 * plan.links.len(), || None);
        for (index, node) in nodes.iter().enumerate() {
            let neighbours = graph.neighbours(index);
            let opened = node.within(|| {
                let sockets = neighbours.iter().map(|neighbour| open_socket(neighbour.port));
                sockets.collect::<Result<Vec<_>, LabError>>()
            })?;
            for (neighbour, socket) in neighbours.iter().zip(opened) {
                let first = plan.topology.links[neighbour.link as usize].ends.0 as usize;
                let end = 2 * neighbour.link as usize + usize::from(first != index);
                ends[end] = Some(socket);
            }
        }
        let ends = ends.into_iter().flatten().collect();
        let namespaces = nodes.iter().map(|node| node.netns.clone()).collect();
        Ok(LinkSockets { ends, namespaces })
    }

    /// Returns the datagrams that full socket buffers of routers and links have lost.
    pub fn buffer_losses(&self) -> u64 {
        let path = Path::new("/proc/thread-self/net/snmp");
        let lost = |netns: &String| {
            let text = crate::netns::within_netns(netns, || {
                fs::read_to_string(path).map_err(LabError::at("read", path))
            });
            text.map_or(0, |text| receive_buffer_errors(&text))
        };
        self.namespaces.iter().map(lost).sum()
    }
}

fn open_socket(port: u32) -> Result<UdpSocket, LabError> {
    let failed = |source| LabError::Io { what: "can't open the socket of a link".into(), source };
    let socket =
        UdpSocket::bind((Ipv4Addr::LOCALHOST, FIRST_PORT + port as u16)).map_err(failed)?;
    socket.connect((Ipv4Addr::LOCALHOST, PORT)).map_err(failed)?;
    socket.set_nonblocking(true).map_err(failed)?;
    set_socket_recv_buffer_size_force(&socket, BUFFER_BYTES)
        .map_err(|errno| failed(errno.into()))?;
    Ok(socket)
}

/// Returns `RcvbufErrors` of UDP in `/proc/net/snmp`.
fn receive_buffer_errors(text: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return 0 };
    let mut pairs = names.split_whitespace().zip(values.split_whitespace());
    let value = pairs.find_map(|(name, value)| (name == "RcvbufErrors").then_some(value));
    value.and_then(|value| value.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_datagrams_are_read_by_the_name_of_their_column() {
        let text = "Tcp: A B\nTcp: 1 2\nUdp: InDatagrams RcvbufErrors SndbufErrors\nUdp: 9 4 1\nUdpLite: X\n";
        assert_eq!(receive_buffer_errors(text), 4);
        assert_eq!(receive_buffer_errors("Udp: InDatagrams\n"), 0);
    }
}
