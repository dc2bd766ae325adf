//! Exit statuses: one table for the program, its help, its manual pages and
//! `docs/reference/commands.md`.

use anyhow::Error;
use nw_app::ClientError;
use nw_app::control::ControlError;
use nw_app::fetch::FetchError;
use nw_app::keystore::KeyStoreError;
use nw_app::object::ObjectError;
use nw_app::packet::PacketError;
use nw_app::pubsub::PubSubError;
use std::fmt;
use std::process::ExitCode;

/// Declares the statuses: number, name and meaning, each once.
macro_rules! statuses {
    ($($status:ident = $number:literal, $word:literal, $meaning:literal;)+) => {
        /// Exit statuses. Scripts depend on the numbers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Status { $($status = $number,)+ }

        impl Status {
            /// All statuses, ascending.
            pub const ALL: &[Status] = &[$(Status::$status),+];

            /// Returns a name of one or two words.
            pub const fn word(self) -> &'static str {
                match self { $(Status::$status => $word,)+ }
            }

            /// Returns the meaning, as help and manual pages state it.
            pub const fn meaning(self) -> &'static str {
                match self { $(Status::$status => $meaning,)+ }
            }
        }
    };
}

statuses! {
    Done = 0, "done", "done";
    Failed = 1, "failed", "failed for another reason, or a check found a fault";
    Usage = 2, "usage", "the command line is wrong";
    NotFound = 3, "not found", "the face, route, strategy, member or other object does not exist";
    Unreachable = 4, "no router", "no router, service or balancer can be reached";
    TimedOut = 5, "no answer", "no answer in time";
    Refused = 6, "refused", "the router, service or balancer refused the command";
    Nack = 7, "Nack", "the Interest was answered by a Nack";
    Unverified = 8, "not verified",
        "Data was not accepted: wrong digest or signature, or a signer that is not trusted";
    Inconclusive = 9, "no verdict", "measured, but the conditions did not allow a verdict";
    Interrupted = 130, "interrupted", "ended by Ctrl-C or SIGTERM before it was done";
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        ExitCode::from(status as u8)
    }
}

/// An error message with the exit status of the command. Used as an error or as the context of one.
#[derive(Debug)]
pub struct Failure {
    status: Status,
    text: String,
}

impl Failure {
    pub fn new(status: Status, text: impl Into<String>) -> Self {
        Failure { status, text: text.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}

/// Returns an error with the status "not found".
pub fn not_found(text: impl Into<String>) -> Error {
    Failure::new(Status::NotFound, text).into()
}

/// Returns the exit status for an error: that of the first known cause.
pub fn status(error: &Error) -> Status {
    if let Some(failure) = error.downcast_ref::<Failure>() {
        return failure.status;
    }
    if let Some(error) = error.downcast_ref::<ControlError>() {
        return of_control(error);
    }
    if let Some(error) = error.downcast_ref::<ObjectError>() {
        return of_object(error);
    }
    if let Some(error) = error.downcast_ref::<PacketError>() {
        return of_packet(error);
    }
    if let Some(error) = error.downcast_ref::<PubSubError>() {
        return of_pubsub(error);
    }
    if let Some(
        KeyStoreError::NoStore(_) | KeyStoreError::NoKey(_) | KeyStoreError::NoCertificate(_),
    ) = error.downcast_ref()
    {
        return Status::NotFound;
    }
    error.downcast_ref::<ClientError>().map_or(Status::Failed, of_client)
}

fn of_control(error: &ControlError) -> Status {
    match error {
        ControlError::Client(error) => of_client(error),
        ControlError::Refused { response, .. } if matches!(response.code, 404 | 410) => {
            Status::NotFound
        }
        ControlError::Refused { .. } | ControlError::DatasetRefused { .. } => Status::Refused,
        ControlError::Timeout(_) => Status::TimedOut,
        ControlError::Nack { .. } => Status::Nack,
        _ => Status::Failed,
    }
}

fn of_object(error: &ObjectError) -> Status {
    match error {
        ObjectError::Client(error) => of_client(error),
        ObjectError::Fetch { error: FetchError::NoAnswer { .. }, .. }
        | ObjectError::NoMetadata(_) => Status::TimedOut,
        ObjectError::Fetch { error: FetchError::Refused { .. }, .. }
        | ObjectError::MetadataRefused { .. } => Status::Nack,
        ObjectError::Invalid { .. } => Status::Unverified,
        ObjectError::ApplicationNack(_) => Status::NotFound,
        ObjectError::Lost(_) => Status::Unreachable,
        _ => Status::Failed,
    }
}

fn of_packet(error: &PacketError) -> Status {
    match error {
        PacketError::Client(error) => of_client(error),
        PacketError::Nack { .. } => Status::Nack,
        PacketError::Timeout { .. } => Status::TimedOut,
        PacketError::Invalid { .. } => Status::Unverified,
    }
}

const fn of_pubsub(error: &PubSubError) -> Status {
    match error {
        PubSubError::NoNode { .. } | PubSubError::Lost(_) => Status::Unreachable,
        PubSubError::Refused { .. } => Status::Refused,
        PubSubError::Timeout => Status::TimedOut,
        _ => Status::Failed,
    }
}

fn of_client(error: &ClientError) -> Status {
    match error {
        ClientError::Closed(_) => Status::Unreachable,
        ClientError::ConnectTimeout(..) => Status::Unreachable,
        ClientError::Interrupted => Status::Interrupted,
        _ => Status::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn status_of_failure_is_found_below_and_above_context() {
        assert_eq!(status(&not_found("no face 7").context("while listing")), Status::NotFound);
        let refused: Result<(), Error> = Err(Error::msg("connection refused"))
            .context(Failure::new(Status::Unreachable, "can't reach a router"));
        assert_eq!(status(&refused.unwrap_err()), Status::Unreachable);
        assert_eq!(status(&Error::msg("?")), Status::Failed);
        let silence = ControlError::Timeout("faces/list".into());
        assert_eq!(status(&Error::from(silence).context("faces")), Status::TimedOut);
    }

    #[test]
    fn statuses_are_distinct() {
        for (index, status) in Status::ALL.iter().enumerate() {
            assert!(Status::ALL[..index].iter().all(|earlier| *earlier as u8 != *status as u8));
        }
    }
}
