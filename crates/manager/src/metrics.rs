//! `/metrics` of a manager: Prometheus text format, version 0.0.4, from the map.

use nw_api::exposition::Exposition;
use nw_api::network::{GraphInstance, GraphInstanceState, NetworkGraph, NetworkState};

/// Name, help and value of each gauge of an instance.
type InstanceGauge = (&'static str, &'static str, fn(&GraphInstance) -> f64);

const INSTANCE_GAUGES: [InstanceGauge; 6] = [
    ("nw_network_instance_up", "1 if an instance runs.", |instance| {
        f64::from(instance.state == GraphInstanceState::Running)
    }),
    ("nw_network_instance_cpu_cores", "Processor cores in use by an instance.", |instance| {
        instance.cpu_cores
    }),
    ("nw_network_instance_resident_bytes", "Resident memory of an instance.", |instance| {
        instance.resident_bytes as f64
    }),
    ("nw_network_instance_interests_rate", "Interests received per second.", |instance| {
        instance.rates.interests
    }),
    ("nw_network_instance_dropped_rate", "Packets dropped per second.", |instance| {
        instance.rates.dropped
    }),
    ("nw_network_instance_pending", "Interests pending in an instance.", |instance| {
        instance.pending as f64
    }),
];

/// Encodes all metrics.
pub fn encode(graph: &NetworkGraph) -> String {
    let mut text = Exposition::default();
    let is_converged = u8::from(graph.state == NetworkState::Converged);
    text.single("nw_network_converged", "gauge", "1 if all is as described.", is_converged);
    text.single("nw_network_version", "gauge", "Version of the document.", graph.version);
    let help = "Conditions that an operator should know.";
    text.single("nw_network_conditions", "gauge", help, graph.conditions.len());
    let name = "nw_network_instances_wanted";
    text.family(name, "gauge", "Instances of a service that are wanted.");
    for service in &graph.services {
        text.sample(name, &[("service", &service.name)], service.wanted);
    }
    let name = "nw_network_instances_running";
    text.family(name, "gauge", "Instances of a service that run.");
    for service in &graph.services {
        text.sample(name, &[("service", &service.name)], service.running);
    }
    for (name, help, value) in INSTANCE_GAUGES {
        text.family(name, "gauge", help);
        for instance in &graph.instances {
            let labels: [(&str, &dyn core::fmt::Display); 2] =
                [("instance", &instance.name), ("host", &instance.host)];
            text.sample(name, &labels, value(instance));
        }
    }
    text.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

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
