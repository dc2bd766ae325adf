//! Asking the router: one question at a time, and never more of the loop's time than a tenth.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use core::time::Duration;
use nw_api::rest::Problem;
use nw_router::Handle;
use nw_router::inside::{Answer, AskError, Question};
use std::sync::Arc;
use tokio::sync::{Mutex, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

/// A question is answered within this time, but for faces that connect.
const PATIENCE: Duration = Duration::from_secs(10);
/// After a question the loop is left alone for so many times what it took.
const REST_TIMES: u32 = 9;

/// Asks a router on behalf of all requests.
#[derive(Clone)]
pub struct Asker {
    handle: Handle,
    /// When the next question may be asked.
    next: Arc<Mutex<Instant>>,
}

/// A request that was not served, as the asker is told.
#[derive(Debug)]
pub struct Refused(pub Problem);

impl Refused {
    /// With a code like HTTP's and a sentence.
    pub fn new(code: u64, text: impl Into<String>) -> Self {
        Refused(Problem { code, text: text.into() })
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = u16::try_from(self.0.code).ok().and_then(|code| StatusCode::from_u16(code).ok());
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(self.0)).into_response();
        if status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

impl From<AskError> for Refused {
    fn from(error: AskError) -> Self {
        Refused::new(503, error.to_string())
    }
}

impl Asker {
    /// Asks this router.
    pub fn new(handle: Handle) -> Self {
        Asker { handle, next: Arc::new(Mutex::new(Instant::now())) }
    }

    /// Asks, when it is our turn, and waits for the answer.
    ///
    /// # Errors
    /// When the router is too busy or has ended.
    pub async fn ask(&self, question: Question) -> Result<Answer, Refused> {
        let (sender, receiver) = oneshot::channel();
        // A command may wait long for its face to connect: others go on meanwhile.
        let command = matches!(question, Question::Command(..));
        let mut next = self.next.lock().await;
        sleep_until(*next).await;
        self.handle.ask(question, move |answer, spent| {
            // Whoever asked may have gone.
            let _ = sender.send((answer, spent));
        })?;
        if command {
            drop(next);
            let (answer, _) = answered(receiver).await?;
            return Ok(answer);
        }
        let (answer, spent) = answered(receiver).await?;
        *next = Instant::now() + spent * REST_TIMES;
        Ok(answer)
    }
}

async fn answered(receiver: oneshot::Receiver<(Answer, Duration)>) -> Result<(Answer, Duration), Refused> {
    match timeout(PATIENCE, receiver).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(_)) => Err(Refused::new(503, "the router has ended")),
        Err(_) => Err(Refused::new(504, "the router did not answer in time")),
    }
}
