//! The library against a real router in this process: registration, files, Nacks, interruption,
//! loss of the router.

use nw_api::config::Config;
use nw_app::object::{ObjectError, ObjectOptions, Reply, exchange, fetch_object};
use nw_app::publish::{Publication, PublishOptions};
use nw_app::{Client, ClientError, FaceUri, control};
use nw_name::Name;
use nw_router::{Handle, Host};
use nw_wire::{DigestSha256, InterestBuilder, NackReason};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

struct Router {
    folder: tempfile::TempDir,
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Router {
    fn start() -> Router {
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "[faces.unix]\npath = {:?}\n[faces.udp]\nlisten = []\n[faces.tcp]\nlisten = []\n",
            folder.path().join("nw.sock")
        );
        let mut host = Host::new(Config::parse("test", &text).unwrap()).unwrap();
        let handle = host.handle();
        let thread = thread::spawn(move || host.run().unwrap());
        Router { folder, handle, thread: Some(thread) }
    }

    fn client(&self) -> Client {
        let uri: FaceUri =
            format!("unix://{}", self.folder.path().join("nw.sock").display()).parse().unwrap();
        Client::connect(&uri).unwrap()
    }

    fn stop(&mut self) {
        self.handle.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.stop();
    }
}

fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

/// Publishes until `end` is set or the router closes the connection.
fn publish(router: &Router, content: &[u8], end: &Arc<AtomicBool>) -> JoinHandle<()> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(content).unwrap();
    let mut client = router.client();
    let end = Arc::clone(end);
    let options = PublishOptions { segment_len: 1000, ..PublishOptions::default() };
    let mut publication =
        Publication::new(file, name("/t/file").as_ref(), 1, options, DigestSha256).unwrap();
    control::register(&mut client, publication.object()).unwrap();
    thread::spawn(move || {
        let _ = client.run(
            |now, received, out| publication.on_interest(now, 7, &received, out),
            || end.load(Ordering::Relaxed),
        );
    })
}

#[test]
fn published_files_fetched() {
    let router = Router::start();
    let end = Arc::new(AtomicBool::new(false));
    for len in [0, 1, 999, 1000, 1001, 300_000] {
        end.store(false, Ordering::Relaxed);
        let content: Vec<u8> = (0..len).map(|i| (i * 7 + i / 255) as u8).collect();
        let producer = publish(&router, &content, &end);
        let mut fetched = Vec::new();
        let mut client = router.client();
        // Remove the cached segments of the previous file, which has the same version.
        control::command(
            &mut client,
            nw_api::management::Verb::CsErase,
            &nw_api::management::ControlParameters::of(name("/t")),
        )
        .unwrap();
        let report = fetch_object(
            &mut client,
            name("/t/file").as_ref(),
            &ObjectOptions::default(),
            |_| {},
            |part| {
                fetched.extend_from_slice(part);
                Ok(())
            },
        );
        let report = report.unwrap();
        assert_eq!(fetched.len(), content.len());
        assert!(fetched == content, "{len} bytes differ");
        assert_eq!(report.segments, (len as u64).div_ceil(1000).max(1));
        assert_eq!(report.name, name("/t/file/v=1"));
        end.store(true, Ordering::Relaxed);
        producer.join().unwrap();
    }
}

#[test]
fn missing_route_reported() {
    let router = Router::start();
    let mut client = router.client();
    let reply =
        exchange(&mut client, InterestBuilder::new(name("/missing")), Duration::from_secs(2))
            .unwrap();
    assert_eq!(reply, Reply::Nack(NackReason::NoRoute));
    let error = fetch_object(
        &mut client,
        name("/missing").as_ref(),
        &ObjectOptions::default(),
        |_| {},
        |_| Ok(()),
    )
    .unwrap_err();
    assert!(
        matches!(error, ObjectError::MetadataRefused { reason: NackReason::NoRoute, .. }),
        "{error}"
    );
}

#[test]
fn sink_error_ends_fetch() {
    let router = Router::start();
    let end = Arc::new(AtomicBool::new(false));
    let producer = publish(&router, &[1; 50_000], &end);
    let mut client = router.client();
    let full = |_: &[u8]| Err(std::io::Error::from(std::io::ErrorKind::StorageFull));
    let error = fetch_object(
        &mut client,
        name("/t/file").as_ref(),
        &ObjectOptions::default(),
        |_| {},
        full,
    )
    .unwrap_err();
    assert!(matches!(error, ObjectError::Sink(_)), "{error}");
    end.store(true, Ordering::Relaxed);
    producer.join().unwrap();
}

#[test]
fn poll_ends_on_stop_flag_and_closed_connection() {
    let mut router = Router::start();
    let mut client = router.client();
    let stop = Arc::new(AtomicBool::new(false));
    client.stop_when(Arc::clone(&stop));
    stop.store(true, Ordering::Relaxed);
    assert!(matches!(client.poll(None, |_, _, _| {}), Err(ClientError::Interrupted)));
    stop.store(false, Ordering::Relaxed);
    router.stop();
    let closed =
        (0..50).find_map(|_| client.poll(Some(Duration::from_millis(100)), |_, _, _| {}).err());
    assert!(matches!(closed, Some(ClientError::Closed(_))), "{closed:?}");
}
