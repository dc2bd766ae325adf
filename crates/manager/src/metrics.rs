//! `/metrics` of a manager: Prometheus text format, version 0.0.4, from the map.

use nw_api::network::{GraphInstanceState, NetworkGraph, NetworkState};
use std::fmt::Write;

/// Encodes all metrics.
pub fn encode(graph: &NetworkGraph) -> String {
    let mut out = String::new();
    let mut family = |name: &str, help: &str, samples: Vec<(String, f64)>| {
        // Writing to a string does not fail.
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} gauge");
        for (labels, value) in samples {
            let _ = writeln!(out, "{name}{labels} {value}");
        }
    };
    let is_converged = f64::from(graph.state == NetworkState::Converged);
    family(
        "nw_network_converged",
        "1 if all is as described.",
        vec![(String::new(), is_converged)],
    );
    let version = graph.version as f64;
    family("nw_network_version", "Version of the document.", vec![(String::new(), version)]);
    let conditions = graph.conditions.len() as f64;
    let help = "Conditions that a person should know.";
    family("nw_network_conditions", help, vec![(String::new(), conditions)]);
    let services = |value: fn(&nw_api::network::GraphService) -> u32| {
        let sample = |service| (label("service", service), f64::from(value(service)));
        fn label(name: &str, service: &nw_api::network::GraphService) -> String {
            format!("{{{name}=\"{}\"}}", service.name)
        }
        graph.services.iter().map(sample).collect::<Vec<_>>()
    };
    let help = "Instances of a service that are wanted.";
    family("nw_network_instances_wanted", help, services(|service| service.wanted));
    let help = "Instances of a service that run.";
    family("nw_network_instances_running", help, services(|service| service.running));
    let instances = |value: fn(&nw_api::network::GraphInstance) -> f64| {
        let sample = |instance: &nw_api::network::GraphInstance| {
            let (name, host) = (&instance.name, &instance.host);
            (format!("{{instance=\"{name}\",host=\"{host}\"}}"), value(instance))
        };
        graph.instances.iter().map(sample).collect::<Vec<_>>()
    };
    let is_up = |instance: &nw_api::network::GraphInstance| {
        f64::from(instance.state == GraphInstanceState::Running)
    };
    family("nw_network_instance_up", "1 if an instance runs.", instances(is_up));
    let help = "Processor cores in use by an instance.";
    family("nw_network_instance_cpu_cores", help, instances(|instance| instance.cpu_cores));
    let help = "Resident memory of an instance.";
    family("nw_network_instance_resident_bytes", help, instances(|i| i.resident_bytes as f64));
    let help = "Interests received per second.";
    family("nw_network_instance_interests_rate", help, instances(|i| i.rates.interests));
    let help = "Packets dropped per second.";
    family("nw_network_instance_dropped_rate", help, instances(|i| i.rates.dropped));
    let help = "Interests pending in an instance.";
    family("nw_network_instance_pending", help, instances(|instance| instance.pending as f64));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_api::network::GraphInstance;

    #[test]
    fn instance_has_a_sample_of_each_metric() {
        let instance = GraphInstance {
            name: "cs~1".to_owned(),
            host: "here".to_owned(),
            state: GraphInstanceState::Running,
            cpu_cores: 0.5,
            ..GraphInstance::default()
        };
        let text = encode(&NetworkGraph { instances: vec![instance], ..NetworkGraph::default() });
        let labels = "{instance=\"cs~1\",host=\"here\"}";
        assert!(text.contains(&format!("nw_network_instance_up{labels} 1\n")), "{text}");
        assert!(text.contains(&format!("nw_network_instance_cpu_cores{labels} 0.5\n")), "{text}");
        assert!(text.contains("nw_network_converged 0\n"), "{text}");
    }
}
