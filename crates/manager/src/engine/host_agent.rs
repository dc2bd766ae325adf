//! What an agent does for a manager on another host: calls of engines here, and connections to
//! control sockets of instances.
//!
//! The manager has the right to run services here. It has none to paths outside of a network's
//! directory: names of instances are single path components, and directories have no `..`.

use super::remote::{OpenControl, RemoteInstance, Reply, Request};
use super::{
    CONTROL_SOCKET, Engine, EngineError, EngineInstance, InstanceSpec, InstanceState,
    instance_directory,
};
use nw_agent::Handler;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Component, Path};
use std::sync::Arc;
use std::time::Duration;

/// Serves the engines of this host.
pub struct HostAgent {
    engines: Vec<Arc<dyn Engine>>,
}

impl HostAgent {
    /// Creates an agent's handler for these engines, which are chosen by name.
    pub fn new(engines: Vec<Arc<dyn Engine>>) -> Self {
        HostAgent { engines }
    }

    fn engine(&self, name: &str) -> Result<&dyn Engine, EngineError> {
        let found = self.engines.iter().find(|engine| engine.name() == name);
        found
            .map(|engine| &**engine)
            .ok_or_else(|| EngineError::failed("use", name)("the agent has no engine of this name"))
    }

    fn carry_out(&self, request: Request) -> Result<Reply, EngineError> {
        match request {
            Request::Start { engine, labels, directory, graph, quota, image } => {
                check(&directory, &labels.instance)?;
                let spec = InstanceSpec { labels, directory, graph, quota, image };
                let started = self.engine(&engine)?.start(&spec)?;
                Ok(Reply::Notes(started.notes))
            }
            Request::Stop { engine, directory, instance, limit_ms } => {
                check(&directory, &instance)?;
                let limit = Duration::from_millis(limit_ms);
                self.engine(&engine)?.stop(&directory, &instance, limit)?;
                Ok(Reply::Done)
            }
            Request::Remove { engine, directory, instance } => {
                check(&directory, &instance)?;
                self.engine(&engine)?.remove(&directory, &instance)?;
                Ok(Reply::Done)
            }
            Request::List { engine, directory, network } => {
                check(&directory, "any")?;
                let found = self.engine(&engine)?.list(&directory, &network)?;
                Ok(Reply::Instances(found.into_iter().map(describe).collect()))
            }
            Request::Find { engine, directory, network, instance } => {
                check(&directory, &instance)?;
                let found = self.engine(&engine)?.find(&directory, &network, &instance)?;
                Ok(Reply::Instances(found.into_iter().map(describe).collect()))
            }
            Request::Logs { engine, directory, instance, lines } => {
                check(&directory, &instance)?;
                self.engine(&engine)?.logs(&directory, &instance, lines).map(Reply::Text)
            }
            Request::SetQuota { engine, directory, instance, quota } => {
                check(&directory, &instance)?;
                let note = self.engine(&engine)?.set_quota(&directory, &instance, quota)?;
                Ok(Reply::Notes(note.into_iter().collect()))
            }
        }
    }
}

impl Handler for HostAgent {
    fn call(&self, request: &[u8]) -> Vec<u8> {
        let reply = match serde_json::from_slice(request) {
            Ok(request) => self.carry_out(request).unwrap_or_else(reply_of),
            Err(error) => Reply::Unreachable(format!(
                "the agent does not know the call ({error}): install the same version of nw on both"
            )),
        };
        serde_json::to_vec(&reply).expect("texts and numbers")
    }

    fn open(&self, request: &[u8]) -> io::Result<UnixStream> {
        let OpenControl { directory, instance } = serde_json::from_slice(request)?;
        check(&directory, &instance).map_err(|error| io::Error::other(error.to_string()))?;
        UnixStream::connect(instance_directory(&directory, &instance).join(CONTROL_SOCKET))
    }
}

/// Refuses paths that lead out of a network's directory.
fn check(directory: &Path, instance: &str) -> Result<(), EngineError> {
    let is_plain =
        |component: Component<'_>| matches!(component, Component::RootDir | Component::Normal(_));
    if !directory.is_absolute() || !directory.components().all(is_plain) {
        let reason = "a network's directory is an absolute path without `..`";
        return Err(EngineError::failed("use", directory.display())(reason));
    }
    let is_name = !instance.is_empty() && !instance.contains(['/', '\0']);
    if !is_name || instance.starts_with('.') {
        let reason = "names of instances have no `/` and do not begin with a dot";
        return Err(EngineError::failed("use", instance)(reason));
    }
    Ok(())
}

fn describe(instance: EngineInstance) -> RemoteInstance {
    let EngineInstance { labels, state, pid, quota, .. } = instance;
    let ending = match state {
        InstanceState::Running => None,
        InstanceState::Ended(how) => Some(how),
    };
    RemoteInstance { labels, ending, pid, quota }
}

fn reply_of(error: EngineError) -> Reply {
    match error {
        EngineError::Unknown(instance) => Reply::Unknown(instance),
        EngineError::Failed { action, subject, reason } => {
            Reply::Failed { subject, reason: format!("can't {action} it there: {reason}") }
        }
        EngineError::Unreachable { engine, reason } => {
            Reply::Unreachable(format!("the engine {engine} does not answer: {reason}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_out_of_the_network_are_refused() {
        for (directory, instance) in [
            ("run/n", "cs"),
            ("/run/../etc", "cs"),
            ("/run/n", "../cs"),
            ("/run/n", ".."),
            ("/run/n", ""),
            ("/run/n", "a/b"),
        ] {
            assert!(check(Path::new(directory), instance).is_err(), "{directory} {instance}");
        }
        assert!(check(Path::new("/run/n"), "cs~1@h2").is_ok());
    }

    #[test]
    fn unknown_calls_and_engines_have_a_sentence() {
        let agent = HostAgent::new(Vec::new());
        let text = |request: &[u8]| String::from_utf8(agent.call(request)).unwrap();
        assert!(text(b"\xff").contains("install the same version"));
        assert!(text(br#"{"call":"list","engine":"process"}"#).contains("install the same"));
        let list = br#"{"call":"list","engine":"process","directory":"/run/n","network":"n"}"#;
        assert!(text(list).contains("no engine of this name"));
        assert!(agent.open(br#"{"directory":"/run/n","instance":"../x"}"#).is_err());
    }
}
