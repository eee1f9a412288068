use super::*;
use crate::policy::{Policy, PolicyLayer, PolicyService};

/// Shows each caller only the tools that are named after it, and says so to caches if `honest`.
#[derive(Clone)]
struct OwnTools;

impl Policy for OwnTools {
    type Memo = Option<String>;

    fn on_request(&self, request: &mut Request<Message>) -> Result<Self::Memo, Rejection> {
        Ok(request.extensions().get::<Principal>().map(|principal| principal.subject().to_owned()))
    }

    fn on_reply(&self, who: Self::Memo, response: &mut Response<Reply>) {
        response.body_mut().edit_answer(move |answer| {
            let Some(result) = answer.result_mut() else { return };
            let tools: Vec<String> = result.get("tools").unwrap().decode().unwrap();
            let own: Vec<_> = tools.into_iter().filter(|tool| Some(tool) == who.as_ref()).collect();
            result.set("tools", &own).unwrap();
            make_private(result);
        });
    }
}

fn all_tools() -> Upstream {
    Upstream::saying(
        RawObject::parse(
            r#"{"resultType":"complete","tools":["ada","bob"],"ttlMs":5000,"cacheScope":"public"}"#,
        )
        .unwrap(),
    )
}

async fn shown<S>(service: &S, who: &str) -> String
where
    S: Service<Request<Message>, Response = Response<Reply>> + Clone,
    S::Error: std::fmt::Debug,
{
    let response = service.clone().oneshot(tools().by(who)).await.unwrap();
    response.body().answer().unwrap().outcome().unwrap().get("tools").unwrap().text().to_owned()
}

#[tokio::test]
async fn a_filter_above_the_cache_sees_every_hit_and_all_share_one_call() {
    let (cache, _) = cache();
    let upstream = all_tools();
    let service: PolicyService<OwnTools, Cached> =
        PolicyLayer::from_policy(OwnTools).layer(layered(&cache, &upstream));
    for _ in 0..2 {
        for who in ["ada", "bob"] {
            assert_eq!(shown(&service, who).await, format!("[\"{who}\"]"));
        }
    }
    assert_eq!(upstream.calls(), 1);
}

#[tokio::test]
async fn a_filter_below_the_cache_costs_calls_but_shows_nobody_what_another_sees() {
    let (cache, _) = cache();
    let upstream = all_tools();
    let service = CacheLayer::new(cache).layer(PolicyLayer::from_policy(OwnTools).layer(upstream.clone()));
    for _ in 0..2 {
        for who in ["ada", "bob"] {
            assert_eq!(shown(&service, who).await, format!("[\"{who}\"]"));
        }
    }
    assert_eq!(upstream.calls(), 2);
}

#[tokio::test]
async fn scopes_below_the_cache_show_nobody_what_another_sees_either() {
    use crate::layers::{ScopeLayer, ScopeRules};

    let list = r#"{"resultType":"complete","tools":[{"name":"ada"},{"name":"bob"}],"ttlMs":5000,"cacheScope":"public"}"#;
    let upstream = Upstream::saying(RawObject::parse(list).unwrap());
    let (cache, _) = cache();
    let rules = ScopeRules::new().with_tool("ada", "a").with_tool("bob", "b");
    let service = CacheLayer::new(cache).layer(ScopeLayer::new(rules).unwrap().layer(upstream.clone()));
    for _ in 0..2 {
        for (who, scope) in [("ada", "a"), ("bob", "b")] {
            let mut request = tools();
            let principal = Principal::new("i", who).with_credential(who.as_bytes()).with_scopes([scope]);
            request.extensions_mut().insert(principal);
            let response = service.clone().oneshot(request).await.unwrap();
            let result = response.body().answer().unwrap().outcome().unwrap();
            assert_eq!(result.get("tools").unwrap().text(), format!(r#"[{{"name":"{who}"}}]"#));
            assert_eq!(result.get("cacheScope").unwrap().text(), "\"private\"");
        }
    }
    assert_eq!(upstream.calls(), 2);
}
