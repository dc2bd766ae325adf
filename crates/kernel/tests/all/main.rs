//! Tests of this crate from outside, in one program.

mod balancer_ethernet;
mod balancer_fragments;
mod balancer_fuzz;
mod balancer_links;
mod balancer_names;
mod balancer_out;
mod balancer_udp;
mod balancer_vlan;
mod common;
mod lipsin;
mod reuseport;
mod vectors;
mod xdp;
mod xdp_sockets;
