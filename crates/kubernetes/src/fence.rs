//! Refuses writes while the lease is not held.
//!
//! Invariant: every request to the API server passes here, except those of the lease itself. A
//! process that was paused finds the deadline passed when it wakes: the clock is looked at when a
//! write is about to be sent, not when the lease was renewed.

use http::{Method, Request, Response};
use kube::client::Body;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tower::{BoxError, Layer, Service};

/// Deadline of a fence that is always open.
const ALWAYS: u64 = u64::MAX;

/// A write was not sent, as the lease is not held.
#[derive(Debug, thiserror::Error)]
#[error("not sent: this operator does not hold the lease any more")]
pub struct FencedError;

/// Permits writes until a deadline.
#[derive(Clone, Debug)]
pub struct Fence(Arc<AtomicU64>);

impl Fence {
    /// Creates a fence that permits all writes: for one operator without a lease, and for commands.
    pub fn open() -> Self {
        Fence(Arc::new(AtomicU64::new(ALWAYS)))
    }

    /// Creates a fence that permits nothing until [`Fence::extend`].
    pub fn closed() -> Self {
        Fence(Arc::new(AtomicU64::new(0)))
    }

    /// Permits writes for `duration` from `from`, which is the time before the lease was renewed.
    pub fn extend(&self, from: Instant, duration: Duration) {
        self.0.store(milliseconds(from + duration), Ordering::SeqCst);
    }

    /// Permits no more writes.
    pub fn close(&self) {
        self.0.store(0, Ordering::SeqCst);
    }

    /// Returns whether writes are permitted at this moment.
    pub fn is_open(&self) -> bool {
        let deadline = self.0.load(Ordering::SeqCst);
        deadline == ALWAYS || milliseconds(Instant::now()) < deadline
    }
}

/// Returns milliseconds since the first call, from 1.
fn milliseconds(at: Instant) -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let start = *START.get_or_init(Instant::now);
    at.saturating_duration_since(start).as_millis() as u64 + 1
}

/// Puts a fence before a client.
#[derive(Clone, Debug)]
pub struct FenceLayer(pub Fence);

impl<S> Layer<S> for FenceLayer {
    type Service = Fenced<S>;

    fn layer(&self, inner: S) -> Fenced<S> {
        Fenced { inner, fence: self.0.clone() }
    }
}

/// A client behind a fence.
#[derive(Clone, Debug)]
pub struct Fenced<S> {
    inner: S,
    fence: Fence,
}

type Answer<R> = Pin<Box<dyn Future<Output = Result<R, BoxError>> + Send>>;

impl<S, B> Service<Request<Body>> for Fenced<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = Answer<Response<B>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if request.method() != Method::GET && !self.fence.is_open() {
            return Box::pin(async { Err(BoxError::from(FencedError)) });
        }
        let answer = self.inner.call(request);
        Box::pin(async move { answer.await.map_err(Into::into) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use std::sync::atomic::AtomicUsize;
    use tower::ServiceExt;

    fn request(method: Method) -> Request<Body> {
        Request::builder().method(method).uri("/").body(Body::empty()).unwrap()
    }

    #[test]
    fn write_is_not_sent_without_the_lease_and_reading_goes_on() {
        let sent = Arc::new(AtomicUsize::new(0));
        let counter = sent.clone();
        let server = tower::service_fn(move |_: Request<Body>| {
            counter.fetch_add(1, Ordering::SeqCst);
            std::future::ready(Ok::<_, Infallible>(Response::new(())))
        });
        let fence = Fence::closed();
        let client = FenceLayer(fence.clone()).layer(server);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let send = |method| runtime.block_on(client.clone().oneshot(request(method)));
        assert!(send(Method::GET).is_ok());
        for method in [Method::POST, Method::PATCH, Method::DELETE, Method::PUT] {
            let error = send(method).unwrap_err();
            assert!(error.is::<FencedError>(), "{error}");
        }
        assert_eq!(sent.load(Ordering::SeqCst), 1);
        fence.extend(Instant::now(), Duration::from_secs(60));
        assert!(send(Method::PATCH).is_ok());
        // A deadline that has passed, as after a pause of the process.
        fence.extend(Instant::now() - Duration::from_secs(1), Duration::from_millis(1));
        assert!(send(Method::PATCH).is_err());
        fence.extend(Instant::now(), Duration::from_secs(60));
        fence.close();
        assert!(send(Method::PATCH).is_err());
        assert_eq!(sent.load(Ordering::SeqCst), 2);
    }
}
