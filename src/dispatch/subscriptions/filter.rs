//! What a client asks to be notified of.

use std::borrow::Cow;
use std::sync::Arc;

use indexmap::IndexSet;
use serde::Serialize;

use super::{Change, Supported};
use crate::message::{Kind, Message, Raw, RawObject};
use crate::rejection::Rejection;

/// More URIs than this are refused on one stream.
const MAX_URIS: usize = 1024;
/// A stream that would have to keep more text than this, its URIs and its id together, is refused.
const MAX_TEXT: usize = 256 * 1024;

/// Serializes as the `notifications` of an acknowledgement.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Filter<'a> {
    #[serde(skip_serializing_if = "is_false")]
    tools_list_changed: bool,
    #[serde(skip_serializing_if = "is_false")]
    prompts_list_changed: bool,
    #[serde(skip_serializing_if = "is_false")]
    resources_list_changed: bool,
    /// All different.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    resource_subscriptions: Vec<Cow<'a, str>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "this is how it gets called")]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl<'a> Filter<'a> {
    /// Reads `params.notifications`, the object `notifications`, of the request `message`.
    pub(super) fn read(message: &Message, notifications: &'a RawObject) -> Result<Self, Rejection> {
        let flag = |name: &str| match notifications.get(name).map(Raw::to_bool) {
            None => Ok(false),
            Some(Some(flag)) => Ok(flag),
            Some(None) => {
                Err(Rejection::invalid_params(format!("`params.notifications.{name}` must be a boolean")))
            }
        };
        let filter = Self {
            tools_list_changed: flag("toolsListChanged")?,
            prompts_list_changed: flag("promptsListChanged")?,
            resources_list_changed: flag("resourcesListChanged")?,
            resource_subscriptions: notifications
                .get("resourceSubscriptions")
                .map_or(Ok(Vec::new()), read_uris)?,
        };
        let id = message.id().map_or(0, |id| id.text().len());
        let uris = filter.resource_subscriptions.iter().map(|uri| uri.len()).sum::<usize>();
        if id + uris > MAX_TEXT {
            return Err(Rejection::invalid_params(format!(
                "`id` and `params.notifications.resourceSubscriptions` are longer than {MAX_TEXT} bytes together"
            )));
        }
        Ok(filter)
    }

    /// What of it can be honoured.
    pub(super) fn honoured(self, supported: Supported) -> Self {
        Self {
            tools_list_changed: self.tools_list_changed && supported.tools,
            prompts_list_changed: self.prompts_list_changed && supported.prompts,
            resources_list_changed: self.resources_list_changed && supported.resources,
            resource_subscriptions: if supported.subscribe {
                self.resource_subscriptions
            } else {
                Vec::new()
            },
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        let Self { tools_list_changed, prompts_list_changed, resources_list_changed, resource_subscriptions } =
            self;
        !(*tools_list_changed || *prompts_list_changed || *resources_list_changed)
            && resource_subscriptions.is_empty()
    }

    /// The same as changes, all different.
    pub(super) fn changes(&self) -> Vec<Change> {
        let kinds = [
            (self.tools_list_changed, Change::ToolsListChanged),
            (self.prompts_list_changed, Change::PromptsListChanged),
            (self.resources_list_changed, Change::ResourcesListChanged),
        ];
        let kinds = kinds.into_iter().filter_map(|(wanted, change)| wanted.then_some(change));
        let uris = self.resource_subscriptions.iter().map(|uri| Change::ResourceUpdated(Arc::from(&**uri)));
        kinds.chain(uris).collect()
    }
}

fn read_uris(uris: Raw<'_>) -> Result<Vec<Cow<'_, str>>, Rejection> {
    const SHAPE: &str = "`params.notifications.resourceSubscriptions` must be an array of strings";
    if uris.kind() != Kind::Array {
        return Err(Rejection::invalid_params(SHAPE));
    }
    let mut distinct = IndexSet::new();
    for uri in uris.elements() {
        distinct.insert(uri.to_str().ok_or_else(|| Rejection::invalid_params(SHAPE))?);
        if distinct.len() > MAX_URIS {
            return Err(Rejection::invalid_params(format!(
                "`params.notifications.resourceSubscriptions` has more than {MAX_URIS} URIs; open several streams"
            )));
        }
    }
    Ok(distinct.into_iter().collect())
}
