//! Looks for a tool, page by page.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytestring::ByteString;
use futures_core::Stream as _;
use http::{HeaderValue, Request, Response};
use tower::Service;

use super::page::{NotAPage, PAUSE, Page};
use super::{LearnedCatalog, Passing};
use crate::body::BoxError;
use crate::catalog::ToolFacts;
use crate::layers::cache::{CacheMode, InnerError, Query, Refusal};
use crate::message::{Event, Message, Meta, RawObject, Reply, RequestId};
use crate::protocol::{code, header, meta, method};
use crate::rejection::Rejection;
use crate::store::CacheStore;
use crate::store::key::Operation;

/// What is known of a tool, or that there is none.
pub(super) type Known = Option<Arc<ToolFacts>>;

/// Why it cannot be said whether there is the tool.
#[derive(Clone)]
pub(super) enum Failure {
    /// The upstream has answered with an error.
    Refused(Arc<Refusal>),
    /// What is below has failed.
    Failed(InnerError),
    /// There was an answer, but not one that can be understood.
    NotAPage(NotAPage),
    TooManyPages,
    /// Callers whom nobody knows have called too many tools that there are not.
    Braked,
    /// The one who asked for all who waited has panicked.
    Broken,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => write!(f, "the upstream answers with the error {}", refusal.error.code),
            Self::Failed(error) => match std::error::Error::source(error) {
                Some(source) => write!(f, "{error}: {source}"),
                None => error.fmt(f),
            },
            Self::NotAPage(NotAPage(reason)) => write!(f, "the list is not understood: {reason}"),
            Self::TooManyPages => f.write_str("the list has more pages than `with_max_pages` allows"),
            Self::Braked => f.write_str("too many tools were looked for in vain"),
            Self::Broken => f.write_str("the request for it has panicked"),
        }
    }
}

impl Failure {
    pub(super) fn response(&self, id: Option<RequestId>) -> Response<Reply> {
        match self {
            Self::Refused(refusal) => refusal.response(id),
            Self::Braked => {
                Rejection::unavailable("too many unknown tools are called; try again later", PAUSE)
                    .into_response(id)
            }
            _ => Rejection::bad_gateway(
                "the list of tools, by which this call is checked, cannot be had from the upstream server",
            )
            .into_response(id),
        }
    }

    fn is_refused_cursor(&self, cursor: Option<&ByteString>) -> bool {
        cursor.is_some()
            && matches!(self, Self::Refused(refusal) if refusal.error.code == code::INVALID_PARAMS)
    }
}

impl<S: CacheStore> LearnedCatalog<S> {
    /// What the lists that are known say of the tool; `None` if it must be asked for.
    pub(super) fn recall(&self, request: &Request<Message>, tool: &str) -> Option<Known> {
        let (mut cursor, mut fresh) = (None, true);
        for _ in 0..self.settings.max_pages {
            let page = self.kept(&self.query(request, cursor.as_ref())?)?;
            if let Some(facts) = page.tool(tool) {
                return Some(Some(Arc::clone(facts)));
            }
            fresh &= page.is_fresh(self.shared.cache.now());
            match &page.next {
                None => return fresh.then_some(None),
                next => cursor.clone_from(next),
            }
        }
        None
    }

    /// Finds out about the tool, asking `bottom` for the pages that are not known.
    pub(super) async fn find_out<B>(
        &self,
        bottom: B,
        call: &Request<Message>,
        tool: &str,
    ) -> Result<Known, Failure>
    where
        B: Service<Request<Message>, Response = Response<Reply>> + Clone + Send + 'static,
        B::Future: Send + 'static,
        B::Error: Into<BoxError>,
    {
        let has_partition = self.query(call, None).is_some_and(|query| query.own.is_some());
        // In a partition, what was looked for in vain is remembered.
        if has_partition {
            return self.walk(bottom, call, tool).await;
        }
        let now = || self.shared.cache.now();
        let attempt = self.shared.brake.attempt(tool, now).await.ok_or(Failure::Braked)?;
        let known = self.walk(bottom, call, tool).await?;
        if known.is_some() {
            attempt.found(tool, now());
        }
        Ok(known)
    }

    async fn walk<B>(&self, bottom: B, call: &Request<Message>, tool: &str) -> Result<Known, Failure>
    where
        B: Service<Request<Message>, Response = Response<Reply>> + Clone + Send + 'static,
        B::Future: Send + 'static,
        B::Error: Into<BoxError>,
    {
        let (mut cursor, mut mode, mut asked) = (None, CacheMode::Use, 0);
        while asked < self.settings.max_pages {
            let page = match self.page(bottom.clone(), call, cursor.clone(), mode).await {
                Ok(page) => page,
                Err(failure) if failure.is_refused_cursor(cursor.as_ref()) => {
                    if mode == CacheMode::Refresh {
                        return Err(Failure::NotAPage(NotAPage(
                            "a cursor that has just been given is refused",
                        )));
                    }
                    (cursor, mode, asked) = (None, CacheMode::Refresh, 0);
                    continue;
                }
                Err(failure) => return Err(failure),
            };
            asked += 1;
            if let Some(facts) = page.tool(tool) {
                return Ok(Some(Arc::clone(facts)));
            }
            match &page.next {
                None => return Ok(None),
                next => cursor.clone_from(next),
            }
        }
        Err(Failure::TooManyPages)
    }

    async fn page<B>(
        &self,
        bottom: B,
        call: &Request<Message>,
        cursor: Option<ByteString>,
        mode: CacheMode,
    ) -> Result<Arc<Page>, Failure>
    where
        B: Service<Request<Message>, Response = Response<Reply>> + Clone + Send + 'static,
        B::Future: Send + 'static,
        B::Error: Into<BoxError>,
    {
        let query = self.query(call, cursor.as_ref());
        let known = query.as_ref().filter(|_| mode == CacheMode::Use).and_then(|query| self.kept(query));
        if let Some(known) = known.filter(|page| page.is_fresh(self.shared.cache.now())) {
            return Ok(known);
        }
        // Those whom nobody knows may be told different things: they ask for themselves, or share in the cache.
        let key = query.as_ref().filter(|query| query.own.is_some() && mode == CacheMode::Use);
        let key = key.and_then(|query| query.flight_key(call));
        let asking = move || ask(self.clone(), bottom, self.list(call, cursor, mode), query);
        match key {
            Some(key) => {
                let waiter = self.shared.flights.join(key, || Box::pin(asking()));
                waiter.await.unwrap_or(Err(Failure::Broken))
            }
            None => asking().await,
        }
    }

    /// Where the page is that this caller is shown at `cursor`.
    fn query(&self, call: &Request<Message>, cursor: Option<&ByteString>) -> Option<Query> {
        self.shared.cache.query_for(call, Operation::Tools, cursor.cloned())
    }

    /// The `tools/list` of the caller who has sent `call`.
    fn list(&self, call: &Request<Message>, cursor: Option<ByteString>, mode: CacheMode) -> Request<Message> {
        let mut params = RawObject::new();
        if let Some(cursor) = cursor {
            let mut text = String::new();
            crate::message::write_string(&cursor, &mut text);
            params.push_text("cursor", text.into());
        }
        if let Some(mut of_caller) = call.body().meta().map(Meta::as_object).cloned() {
            of_caller.remove(meta::PROGRESS_TOKEN);
            of_caller.remove(meta::LOG_LEVEL);
            params.set_object("_meta", &of_caller);
        }
        // No two of them alike, and none like those of clients, which number theirs.
        let id = format!("tools-{}", self.shared.asked.fetch_add(1, Ordering::Relaxed));
        let message = Message::request(id.as_str().into(), method::TOOLS_LIST, params);
        let mut list = Request::new(message.expect("`_meta` is an object"));
        *list.uri_mut() = call.uri().clone();
        *list.method_mut() = call.method().clone();
        *list.version_mut() = call.version();
        *list.extensions_mut() = call.extensions().clone();
        list.extensions_mut().remove::<Passing>();
        list.extensions_mut().insert(mode);
        let headers = list.headers_mut();
        headers.clone_from(call.headers());
        headers.insert(header::MCP_METHOD, HeaderValue::from_static(method::TOOLS_LIST));
        headers.remove(header::MCP_NAME);
        headers.remove(http::header::CONTENT_LENGTH);
        let of_params: Vec<_> =
            headers.keys().filter(|name| name.as_str().starts_with("mcp-param-")).cloned().collect();
        for name in of_params {
            headers.remove(name);
        }
        list
    }
}

/// Asks for one page.
async fn ask<B, S>(
    catalog: LearnedCatalog<S>,
    mut bottom: B,
    list: Request<Message>,
    query: Option<Query>,
) -> Result<Arc<Page>, Failure>
where
    B: Service<Request<Message>, Response = Response<Reply>>,
    B::Error: Into<BoxError>,
    S: CacheStore,
{
    let failed = |error: B::Error| Failure::Failed(InnerError::from(error.into()));
    poll_fn(|cx| bottom.poll_ready(cx)).await.map_err(failed)?;
    let (mut parts, reply) = bottom.call(list).await.map_err(failed)?.into_parts();
    let answer = match reply {
        Reply::Answer(answer) => Some(answer),
        Reply::Stream(mut stream) => loop {
            match poll_fn(|cx| Pin::new(&mut stream).poll_next(cx)).await {
                Some(Event::Notification(_)) => {}
                Some(Event::Answer(answer)) => break Some(answer),
                None => break None,
            }
        },
        Reply::Accepted => None,
    };
    let Some(answer) = answer else { return Err(Failure::NotAPage(NotAPage("there is no answer"))) };
    match answer.outcome() {
        Ok(result) => catalog.take_note(query.as_ref(), parts.status, result).map_err(Failure::NotAPage),
        Err(error) => {
            let error = error.clone();
            // The caller has seen no stream: what became of it can be told with a status.
            parts.status = error.status(parts.status);
            Err(Failure::Refused(Arc::new(Refusal::of(
                &Response::from_parts(parts, Reply::Answer(answer)),
                &error,
            ))))
        }
    }
}
