//! The system settings (sysctl) that a gateway needs: changed at the start, restored at the end.

use crate::config::Config;
use nw_api::balancer::SystemSetting;
use std::fs;
use std::path::{Path, PathBuf};

const SYSCTL_ROOT: &str = "/proc/sys";

/// From `linux/capability.h`.
const CAP_NET_ADMIN: u32 = 12;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_BPF: u32 = 39;

/// Returns whether this process may load and attach programs; true if that can't be determined.
pub fn has_rights() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    capabilities(&status).is_none_or(|all| {
        let has = |capability: u32| all & 1 << capability != 0;
        has(CAP_NET_ADMIN) && (has(CAP_BPF) || has(CAP_SYS_ADMIN))
    })
}

/// Parses the effective capabilities in `/proc/self/status`.
fn capabilities(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// Returns the required settings: sysctl name, value to set, values that are acceptable.
fn required(config: &Config) -> Vec<(String, &'static str, &'static [&'static str])> {
    let mut wanted = Vec::new();
    let families = config.cluster.addresses.iter().map(|ip| ip.0.is_ipv4());
    let (mut v4, mut v6) = (false, false);
    families.for_each(|is_v4| if is_v4 { v4 = true } else { v6 = true });
    if v4 {
        // Packets to a neighbour that is not resolved yet are forwarded by the system.
        wanted.push(("net.ipv4.ip_forward".to_owned(), "1", &["1"][..]));
        for interface in &config.cluster.interfaces {
            let of = |key: &str| format!("net.ipv4.conf.{}.{key}", interface.replace('.', "/"));
            // Their source is this machine's own address, which the system would otherwise reject.
            wanted.push((of("accept_local"), "1", &["1"]));
            wanted.push((of("rp_filter"), "2", &["2"]));
        }
    }
    if v6 {
        wanted.push(("net.ipv6.conf.all.forwarding".to_owned(), "1", &["1"]));
    }
    wanted
}

fn path(root: &Path, name: &str) -> PathBuf {
    // As in sysctl: a dot in an interface's name is written as a slash.
    let parts = name.split('.').map(|part| part.replace('/', "."));
    parts.fold(root.to_owned(), |path, part| path.join(part))
}

/// Changes the settings that differ. Returns the changed ones, and messages for those that failed.
pub fn set(config: &Config) -> (Vec<SystemSetting>, Vec<String>) {
    set_below(Path::new(SYSCTL_ROOT), config)
}

fn set_below(root: &Path, config: &Config) -> (Vec<SystemSetting>, Vec<String>) {
    let (mut changed, mut failed) = (Vec::new(), Vec::new());
    for (name, value, acceptable) in required(config) {
        let path = path(root, &name);
        let before = fs::read_to_string(&path).map(|text| text.trim().to_owned());
        match before {
            Ok(before) if acceptable.contains(&before.as_str()) => {}
            Ok(before) => match fs::write(&path, value) {
                Ok(()) => changed.push(SystemSetting { name, before, now: value.to_owned() }),
                Err(error) => failed.push(format!(
                    "{name} is {before}, must be {value} and can't be set ({error}): run `sysctl -w {name}={value}`"
                )),
            },
            Err(error) => failed.push(format!("{name} can't be read: {error}")),
        }
    }
    (changed, failed)
}

/// Restores changed settings.
pub fn restore(settings: &[SystemSetting]) {
    restore_below(Path::new(SYSCTL_ROOT), settings);
}

fn restore_below(root: &Path, settings: &[SystemSetting]) {
    for setting in settings {
        if let Err(error) = fs::write(path(root, &setting.name), &setting.before) {
            tracing::warn!(%error, "{} stays {}; it was {}", setting.name, setting.now, setting.before);
        } else {
            tracing::info!("{} is {} again", setting.name, setting.before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effective_capabilities_are_parsed() {
        assert_eq!(capabilities("Name:\tnw\nCapEff:\t000001ffffffffff\n"), Some(0x1ff_ffff_ffff));
        assert_eq!(capabilities("CapEff:\t0000000000001000\n"), Some(1 << CAP_NET_ADMIN));
        assert_eq!(capabilities("Name:\tnw\n"), None);
    }

    #[test]
    fn changed_settings_are_restored() {
        let directory = tempfile::tempdir().unwrap();
        let text = "[cluster]\naddresses = [\"192.0.2.1\", \"2001:db8::1\"]\ninterfaces = [\"eth0.5\", \"eth1\"]\n";
        let config = Config::parse("b.toml", text).unwrap();
        let file = |name: &str| path(directory.path(), name);
        for (name, value) in [
            ("net.ipv4.ip_forward", "0\n"),
            ("net.ipv4.conf.eth0/5.accept_local", "1\n"),
            ("net.ipv4.conf.eth0/5.rp_filter", "1\n"),
            ("net.ipv4.conf.eth1.accept_local", "0\n"),
            ("net.ipv6.conf.all.forwarding", "1\n"),
        ] {
            fs::create_dir_all(file(name).parent().unwrap()).unwrap();
            fs::write(file(name), value).unwrap();
        }
        assert!(file("net.ipv4.conf.eth0/5.rp_filter").ends_with("net/ipv4/conf/eth0.5/rp_filter"));
        let (changed, failed) = set_below(directory.path(), &config);
        let names: Vec<_> = changed.iter().map(|setting| setting.name.as_str()).collect();
        let expected = [
            "net.ipv4.ip_forward",
            "net.ipv4.conf.eth0/5.rp_filter",
            "net.ipv4.conf.eth1.accept_local",
        ];
        assert_eq!(names, expected);
        assert_eq!(failed.len(), 1, "{failed:?}");
        assert!(failed[0].starts_with("net.ipv4.conf.eth1.rp_filter can't be read"));
        let read = |name: &str| fs::read_to_string(file(name)).unwrap();
        assert_eq!(read("net.ipv4.ip_forward"), "1");
        restore_below(directory.path(), &changed);
        assert_eq!(read("net.ipv4.ip_forward"), "0");
        assert_eq!(read("net.ipv4.conf.eth0/5.rp_filter"), "1");
    }
}
