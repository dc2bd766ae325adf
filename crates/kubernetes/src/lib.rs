//! Networks of services in Kubernetes: a custom resource, an engine that runs instances as pods,
//! and an operator that runs a manager for each resource.
//!
//! Invariant: what a network is, is decided by `nw-manage` alone. Pods are found by their labels,
//! so an operator needs no memory of what it started; and no write leaves this program while it
//! does not hold the lease.

#![cfg(feature = "cluster")]
#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]

mod cluster;
mod conditions;
mod engine;
mod fence;
mod follow;
mod lease;
mod manifests;
mod node;
mod operator;
mod pod;
mod reconcile;
mod resource;
mod scale;

pub use cluster::{Cluster, ClusterError};
pub use engine::{KubernetesEngine, Place};
pub use fence::{Fence, FencedError};
pub use follow::{Applied, apply, delete, follow};
pub use lease::{LeaseOptions, LeaseState};
pub use manifests::{ManifestOptions, Rule, definition, manifests, rules};
pub use operator::{OperatorOptions, run};
pub use resource::{
    InstanceStatus, LinkVolume, Network, NetworkSpec, NetworkStatus, Resources, ServiceCount,
};
pub use scale::{ScaleError, StatefulSetScale};
