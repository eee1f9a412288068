//! Decides by its head what an upstream's response is, and reads what it says.

use std::sync::Arc;

use bytes::Bytes;
use bytestring::ByteString;
use http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Response, StatusCode, response};

use super::Settings;
use super::fault::Fault;
use super::headers::{is_challenge, outbound};
use crate::media;
use crate::message::{Answer, Incoming, Reply, RequestId};
use crate::rejection::Rejection;

/// What is remembered of a request while the upstream works on it.
#[derive(Clone)]
pub(super) struct Call {
    /// `None` for a notification.
    pub(super) id: Option<RequestId>,
    pub(super) settings: Arc<Settings>,
}

/// What comes in the body of a response.
#[derive(Debug)]
pub(super) enum Shape {
    /// One message.
    Json,
    /// A stream of messages.
    Events,
    /// Nothing that anybody waits for.
    Nothing,
    /// Nothing that is read.
    Refused(Rejection),
}

impl Call {
    pub(super) fn shape(&self, head: &response::Parts) -> Shape {
        let status = head.status;
        if status.is_client_error() || status.is_server_error() {
            return self.error_shape(head);
        }
        if self.id.is_none() && status.is_success() {
            return Shape::Nothing;
        }
        let fault = match status {
            StatusCode::OK if !media::is_plain(&head.headers) => Fault::Compressed,
            StatusCode::OK if media::is_json(&head.headers) => return Shape::Json,
            StatusCode::OK if media::is_event_stream(&head.headers) => return Shape::Events,
            StatusCode::OK => Fault::MediaType,
            StatusCode::ACCEPTED => Fault::Accepted,
            status if status.is_redirection() => Fault::Redirect,
            status => Fault::Status(status),
        };
        Shape::Refused(self.refuse(&fault))
    }

    fn error_shape(&self, head: &response::Parts) -> Shape {
        let credentials =
            matches!(head.status, StatusCode::UNAUTHORIZED | StatusCode::PROXY_AUTHENTICATION_REQUIRED);
        let is_ours = head.status == StatusCode::PROXY_AUTHENTICATION_REQUIRED || !self.settings.challenges;
        if credentials && is_ours {
            tracing::warn!(
                status = head.status.as_u16(),
                "an upstream does not accept the credentials that `UpstreamLayer` was given for it"
            );
            return Shape::Refused(Rejection::bad_gateway(
                "the upstream server does not accept the credentials of this gateway",
            ));
        }
        if media::is_plain(&head.headers) && media::is_json(&head.headers) {
            Shape::Json
        } else {
            Shape::Refused(self.refuse_status(head))
        }
    }

    pub(super) fn refuse(&self, fault: &Fault) -> Rejection {
        fault.refuse(self.id.as_ref())
    }

    /// The refusal for an error status that no JSON-RPC error comes with.
    pub(super) fn refuse_status(&self, head: &response::Parts) -> Rejection {
        let status = head.status;
        tracing::warn!(id = ?self.id, status = status.as_u16(), "an upstream has refused without a JSON-RPC error");
        let mut rejection = Rejection::upstream_status(status);
        let challenge = (self.settings.challenges && is_challenge(status)).then_some(WWW_AUTHENTICATE);
        for name in [Some(RETRY_AFTER), challenge].into_iter().flatten() {
            for value in head.headers.get_all(&name) {
                rejection = rejection.with_header(name.clone(), value.clone());
            }
        }
        rejection
    }

    /// The response with the head of the upstream's and `reply` as its body.
    pub(super) fn respond(
        &self,
        mut head: response::Parts,
        status: StatusCode,
        reply: Reply,
    ) -> Response<Reply> {
        let settings = &self.settings;
        head.headers = outbound(&head.headers, head.status, settings.challenges, &settings.response_headers);
        head.status = status;
        Response::from_parts(head, reply)
    }

    /// The response to a JSON body.
    pub(super) fn json(&self, head: response::Parts, body: Result<Bytes, Fault>) -> Response<Reply> {
        let status = head.status;
        let answer = body.and_then(|body| {
            if body.trim_ascii().is_empty() {
                return Err(Fault::Empty);
            }
            match self.message(ByteString::try_from(body).map_err(|_| Fault::NotUtf8)?)? {
                Said::Answer(answer) if answer.outcome().is_ok() && status != StatusCode::OK => {
                    Err(Fault::Contradiction(status))
                }
                Said::Answer(answer) => Ok(answer),
                Said::Notification(_) => Err(Fault::NotAnAnswer),
            }
        });
        match answer {
            Ok(answer) => self.respond(head, status, Reply::Answer(answer)),
            Err(Fault::OtherId) => self.refused(self.refuse(&Fault::OtherId)),
            Err(Fault::Contradiction(status)) => self.refused(self.refuse(&Fault::Contradiction(status))),
            // The body of an error page: that it is JSON does not make it an answer.
            Err(_) if status != StatusCode::OK => self.refused(self.refuse_status(&head)),
            Err(fault) => self.refused(self.refuse(&fault)),
        }
    }

    pub(super) fn refused(&self, rejection: Rejection) -> Response<Reply> {
        rejection.into_response(self.id.clone())
    }

    /// Reads one message, which is for this call alone.
    pub(super) fn message(&self, text: ByteString) -> Result<Said, Fault> {
        match Incoming::parse(text).map_err(Fault::Unusable)? {
            Incoming::Notification(message) => Ok(Said::Notification(message)),
            Incoming::Answer { id, outcome } => {
                let is_ours = match (&self.id, &id) {
                    // An error that could not be told whose it is: it came to this request, and can be no other's.
                    (_, None) => true,
                    (Some(own), Some(id)) => own.is_same(id),
                    (None, Some(_)) => false,
                };
                if !is_ours {
                    return Err(Fault::OtherId);
                }
                let id = self.id.clone();
                Ok(Said::Answer(match outcome {
                    Ok(result) => Answer::result(id, result),
                    Err(error) => Answer::error(id, error),
                }))
            }
        }
    }
}

/// One message that belongs to a call.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a box for each answer would cost more than the room")]
pub(super) enum Said {
    Answer(Answer),
    Notification(crate::message::Message),
}
