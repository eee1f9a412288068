//! What an application publishes, and through what.

use std::fmt;
use std::sync::Arc;

use super::bus::{Bus, Observer};
use crate::protocol::method;

/// Something that clients can be told has changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Change {
    /// `tools/list` gives another result now.
    ToolsListChanged,
    /// `prompts/list` gives another result now.
    PromptsListChanged,
    /// `resources/list` or `resources/templates/list` gives another result now.
    ResourcesListChanged,
    /// `resources/read` gives another result for this URI now.
    ResourceUpdated(Arc<str>),
}

impl Change {
    /// The method of the notification that tells it.
    ///
    /// ```
    /// use mcp_layers::dispatch::Change;
    ///
    /// assert_eq!(Change::ToolsListChanged.method(), "notifications/tools/list_changed");
    /// ```
    #[must_use]
    pub const fn method(&self) -> &'static str {
        match self {
            Self::ToolsListChanged => method::NOTIFICATIONS_TOOLS_LIST_CHANGED,
            Self::PromptsListChanged => method::NOTIFICATIONS_PROMPTS_LIST_CHANGED,
            Self::ResourcesListChanged => method::NOTIFICATIONS_RESOURCES_LIST_CHANGED,
            Self::ResourceUpdated(_) => method::NOTIFICATIONS_RESOURCES_UPDATED,
        }
    }
}

/// What a change makes invalid in a cache.
#[cfg(feature = "cache")]
impl From<&Change> for crate::store::Invalidation {
    fn from(change: &Change) -> Self {
        match change {
            Change::ToolsListChanged => Self::Tools,
            Change::PromptsListChanged => Self::Prompts,
            Change::ResourcesListChanged => Self::Resources,
            Change::ResourceUpdated(uri) => Self::Resource((&**uri).into()),
        }
    }
}

/// Publishes changes to the clients that listen for them.
///
/// It is cheap to clone, and clones publish to the same listeners. All methods can be called from any thread and
/// from async code: they do not wait for anybody, and cost next to nothing if nobody listens.
///
/// ```
/// use mcp_layers::dispatch::Publisher;
///
/// let publisher = Publisher::new();
/// let in_thread = publisher.clone();
/// std::thread::spawn(move || in_thread.resource_updated("file:///project/config.json")).join().unwrap();
/// publisher.tools_list_changed();
/// ```
#[derive(Clone, Default)]
pub struct Publisher {
    pub(super) bus: Arc<Bus>,
}

impl Publisher {
    /// A publisher that nobody listens to yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Has `observer` called with every change that is published from now on, by the thread that publishes it and
    /// before any listener can hear of it: what a cache evicts then is gone when a client asks again.
    ///
    /// It may publish other changes. If it panics, that is logged, and the change goes on.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    /// use std::sync::Arc;
    ///
    /// use mcp_layers::dispatch::{Change, Publisher};
    ///
    /// let (publisher, seen) = (Publisher::new(), Arc::new(AtomicUsize::new(0)));
    /// let count = Arc::clone(&seen);
    /// publisher.observe(move |change| {
    ///     assert_eq!(*change, Change::ToolsListChanged);
    ///     count.fetch_add(1, Ordering::Relaxed);
    /// });
    /// publisher.tools_list_changed();
    /// assert_eq!(seen.load(Ordering::Relaxed), 1);
    /// ```
    pub fn observe(&self, observer: impl Fn(&Change) + Send + Sync + 'static) {
        let observer: Observer = Arc::new(observer);
        self.bus.observe(&observer);
    }

    /// Publishes any change.
    pub fn publish(&self, change: &Change) {
        self.bus.publish(change);
    }

    /// Publishes that `tools/list` gives another result now.
    pub fn tools_list_changed(&self) {
        self.publish(&Change::ToolsListChanged);
    }

    /// Publishes that `prompts/list` gives another result now.
    pub fn prompts_list_changed(&self) {
        self.publish(&Change::PromptsListChanged);
    }

    /// Publishes that `resources/list` or `resources/templates/list` gives another result now.
    pub fn resources_list_changed(&self) {
        self.publish(&Change::ResourcesListChanged);
    }

    /// Publishes that `resources/read` gives another result for `uri` now.
    ///
    /// It reaches those who asked for exactly this URI: no other spelling of it, and no prefix.
    pub fn resource_updated(&self, uri: &str) {
        self.publish(&Change::ResourceUpdated(uri.into()));
    }
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher").finish_non_exhaustive()
    }
}
