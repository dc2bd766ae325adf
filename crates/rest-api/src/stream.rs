//! Bodies that go on while something happens, at the speed of whoever reads.

use axum::body::{Body, Bytes, HttpBody};
use core::convert::Infallible;
use core::pin::Pin;
use core::task::{Context, Poll};
use hyper::body::Frame;
use tokio::sync::mpsc;

/// Parts that wait to be sent; then whoever makes them waits. They can be large.
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

/// A body, and where its parts are put. It ends when the sender is let go; the sender learns when the reader has gone.
pub fn body() -> (mpsc::Sender<Bytes>, Body) {
    let (sender, receiver) = mpsc::channel(PARTS_MAX);
    (sender, Body::new(Parts(receiver)))
}
