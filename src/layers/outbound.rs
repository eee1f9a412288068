//! Answers that are judged on their way out.

use http::Response;

use crate::message::{Answer, Reply};
use crate::rejection::Rejection;

/// Has `judge` look at the answer, and puts its refusal in the answer's place.
///
/// An answer that comes alone takes the refusal's status and headers with it; at the end of a stream the status has
/// been sent long since.
pub(super) fn judge_answer(
    response: &mut Response<Reply>,
    judge: impl FnOnce(&mut Answer) -> Result<(), Rejection> + Send + 'static,
) {
    match response.body_mut() {
        Reply::Answer(answer) => {
            if let Err(rejection) = judge(answer) {
                let id = answer.id().cloned();
                *response = rejection.into_response(id);
            }
        }
        reply => reply.edit_answer(move |answer| {
            if let Err(rejection) = judge(answer) {
                *answer = rejection.answer(answer.id().cloned());
            }
        }),
    }
}

/// Whether the answer asks the client for input.
pub(super) fn requires_input(answer: &Answer) -> bool {
    let Ok(result) = answer.outcome() else { return false };
    result.get("resultType").is_some_and(|kind| kind.is_str("input_required"))
}
