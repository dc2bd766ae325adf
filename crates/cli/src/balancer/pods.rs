//! The number of members that are pods, for `elastic.engine = "kubernetes"`.

use anyhow::Result;
use nw_balancer::Config;
use nw_balancer::config::LauncherKind;
use nw_balancer::member_count::MemberCount;

/// Returns whether members are pods that the balancer counts.
pub fn are_counted(config: &Config) -> bool {
    config.elastic.enabled && config.elastic.engine == LauncherKind::Kubernetes
}

/// Returns what reads and sets the number of pods. `None` if the configuration has none, or if this
/// program is built without the feature `kubernetes`.
#[cfg(feature = "kubernetes")]
pub fn count(config: &Config) -> Result<Option<Box<dyn MemberCount>>> {
    use anyhow::Context;
    use nw_kubernetes::StatefulSetScale;
    let stateful_set = config.elastic.stateful_set().filter(|_| are_counted(config));
    let Some((namespace, name)) = stateful_set else { return Ok(None) };
    let scale = StatefulSetScale::from_environment(namespace, name)
        .context("elastic.engine = \"kubernetes\"")?;
    Ok(Some(Box::new(PodCount(scale))))
}

#[cfg(not(feature = "kubernetes"))]
pub fn count(_: &Config) -> Result<Option<Box<dyn MemberCount>>> {
    Ok(None)
}

#[cfg(feature = "kubernetes")]
struct PodCount(nw_kubernetes::StatefulSetScale);

#[cfg(feature = "kubernetes")]
impl MemberCount for PodCount {
    fn get(&mut self) -> Result<u32, nw_balancer::member_count::CountError> {
        self.0.replicas().map_err(count_error)
    }

    fn set(&mut self, members: u32) -> Result<(), nw_balancer::member_count::CountError> {
        self.0.set_replicas(members).map_err(count_error)
    }
}

#[cfg(feature = "kubernetes")]
fn count_error(error: nw_kubernetes::ScaleError) -> nw_balancer::member_count::CountError {
    use nw_balancer::member_count::CountError;
    match error {
        nw_kubernetes::ScaleError::Changed(_) => CountError::Changed,
        error => CountError::Failed(error.to_string()),
    }
}
