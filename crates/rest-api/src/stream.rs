//! Response bodies that are sent while they are produced, at the speed of the client, and no longer
//! than the client may read them.

use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use core::convert::Infallible;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use hyper::body::Frame;
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior};

/// Parts that may be queued; the producer then waits. Parts can be large.
const PARTS_MAX: usize = 1;

/// Interval at which it is checked whether a stream may go on.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

struct Parts(mpsc::Receiver<Bytes>);

impl HttpBody for Parts {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|part| part.map(|part| Ok(Frame::data(part))))
    }
}

/// Returns a body and the sender of its parts. The body ends when the sender is dropped; the sender
/// is closed when the client disconnects.
pub fn body() -> (mpsc::Sender<Bytes>, Body) {
    let (sender, receiver) = mpsc::channel(PARTS_MAX);
    (sender, Body::new(Parts(receiver)))
}

/// A body that ends when the right to read it does.
struct Limited {
    body: Body,
    may_go_on: Box<dyn Fn() -> bool + Send>,
    check: Interval,
}

impl HttpBody for Limited {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        while self.check.poll_tick(context).is_ready() {
            if !(self.may_go_on)() {
                return Poll::Ready(None);
            }
        }
        Pin::new(&mut self.body).poll_frame(context)
    }
}

/// Returns a response whose stream ends within a second after `may_go_on` returns false. A response
/// of known length is returned as it is. To be called in an asynchronous runtime.
pub fn limit_stream(response: Response, may_go_on: impl Fn() -> bool + Send + 'static) -> Response {
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    response.map(|body| {
        let mut check = tokio::time::interval(CHECK_INTERVAL);
        check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Body::new(Limited { body, may_go_on: Box::new(may_go_on), check })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn next(body: &mut Body) -> impl Future<Output = Option<Bytes>> + '_ {
        core::future::poll_fn(|context| {
            let frame = Pin::new(&mut *body).poll_frame(context);
            frame.map(|frame| frame.and_then(|frame| frame.ok()?.into_data().ok()))
        })
    }

    #[test]
    fn stream_ends_with_the_right_to_read_it_and_other_bodies_stay() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let is_allowed = Arc::new(AtomicBool::new(true));
            let (sender, parts) = body();
            let allowed = Arc::clone(&is_allowed);
            let response =
                limit_stream(Response::new(parts), move || allowed.load(Ordering::SeqCst));
            let mut stream = response.into_body();
            sender.send("one".into()).await.unwrap();
            assert_eq!(next(&mut stream).await.unwrap(), "one");
            // The first check is due at once, and finds nothing wrong.
            tokio::time::sleep(Duration::from_millis(20)).await;
            sender.send("two".into()).await.unwrap();
            assert_eq!(next(&mut stream).await.unwrap(), "two");
            is_allowed.store(false, Ordering::SeqCst);
            assert_eq!(next(&mut stream).await, None, "without a further part");
            drop(stream);
            assert!(sender.is_closed(), "the producer of the stream notices");
            let fixed = limit_stream(Response::new(Body::from("all")), || false);
            assert_eq!(next(&mut fixed.into_body()).await.unwrap(), "all");
        });
    }
}
