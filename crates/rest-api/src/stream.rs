//! Response bodies that are sent while they are produced, at the speed of the client.

use axum::body::{Body, Bytes, HttpBody};
use core::convert::Infallible;
use core::pin::Pin;
use core::task::{Context, Poll};
use hyper::body::Frame;
use tokio::sync::mpsc;

/// Parts that may be queued; the producer then waits. Parts can be large.
const PARTS_MAX: usize = 1;

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
