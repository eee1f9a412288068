//! Resources that templates list.

use std::time::Duration;

use super::*;

fn template(uri: &'static str, items: &'static [&'static str]) -> ResourceTemplate {
    ResourceTemplate::new(uri, "template", |variables, _| async move {
        Ok(ResourceContents::text(variables.uri().to_owned(), "text"))
    })
    .with_list(move |_| async move {
        Ok(items.iter().map(|uri| ListedResource::new(*uri, "item")).collect())
    })
}

fn fixed(uri: &'static str) -> Resource {
    Resource::new(uri, "fixed", move |_| async move { Ok(ResourceContents::text(uri, "text")) })
}

fn uris(list: &Value) -> Vec<&str> {
    list["resources"].as_array().unwrap().iter().map(|resource| resource["uri"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn what_an_item_says_of_itself_overrides_what_its_template_says() {
    let notes = ResourceTemplate::new("note://{id}", "note", |variables, _| async move {
        Ok(ResourceContents::text(variables.uri().to_owned(), "text"))
    })
    .with_title("T")
    .with_mime_type("M")
    .with_list(|_| async {
        Ok(vec![ListedResource::new("note://1", "one").with_mime_type("N").with_size(4)])
    });
    let server = Dispatch::builder("s", "1").resource_template(notes).build().unwrap();
    let list = result(&server, "resources/list", json!({})).await;
    let expected = json!([{"uri": "note://1", "name": "one", "title": "T", "mimeType": "N", "size": 4}]);
    assert_eq!(list["resources"], expected);
    assert_eq!(list["resultType"], "complete");
    let templates = result(&server, "resources/templates/list", json!({})).await;
    let expected = json!([{"uriTemplate": "note://{id}", "name": "note", "title": "T", "mimeType": "M"}]);
    assert_eq!(templates["resourceTemplates"], expected);
}

#[tokio::test]
async fn the_meta_of_each_definition_is_its_own() {
    let notes = template("note://{id}", &[]).with_meta("of", "template").with_list(|_| async {
        Ok(vec![
            ListedResource::new("note://1", "one"),
            ListedResource::new("note://2", "two").with_meta("of", "item").with_meta("n", 2),
        ])
    });
    let prompt = Prompt::new("p", |_, _| async { Ok(crate::protocol::PromptMessage::user("hi")) });
    let server = Dispatch::builder("s", "1")
        .resource(fixed("f:1").with_meta("of", "resource"))
        .resource_template(notes)
        .prompt(prompt.with_meta("of", "prompt"))
        .build()
        .unwrap();
    let list = result(&server, "resources/list", json!({})).await;
    assert_eq!(
        list["resources"],
        json!([
            {"uri": "f:1", "name": "fixed", "_meta": {"of": "resource"}},
            {"uri": "note://1", "name": "one"},
            {"uri": "note://2", "name": "two", "_meta": {"of": "item", "n": 2}},
        ])
    );
    let list = result(&server, "resources/templates/list", json!({})).await;
    let expected = json!([{"uriTemplate": "note://{id}", "name": "template", "_meta": {"of": "template"}}]);
    assert_eq!(list["resourceTemplates"], expected);
    let list = result(&server, "prompts/list", json!({})).await;
    assert_eq!(list["prompts"], json!([{"name": "p", "_meta": {"of": "prompt"}}]));
}

#[tokio::test]
async fn pages_show_everything_once_and_in_order_whatever_their_size() {
    let all = ["f:1", "f:2", "f:3", "a:1", "a:2", "c:1", "c:2", "c:3"];
    for size in 0..=9 {
        let mut builder = Dispatch::builder("s", "1")
            .resource(fixed("f:1"))
            .resource(fixed("f:2"))
            .resource_template(template("a:{x}", &["a:1", "a:2"]))
            .resource_template(template("b:{x}", &[]))
            .resource_template(template("c:{x}", &["c:1", "c:2", "c:3"]))
            .resource(fixed("f:3"));
        if let Some(size) = NonZeroUsize::new(size) {
            builder = builder.with_page_size(size);
        }
        let server = builder.build().unwrap();
        let (mut seen, mut pages, mut params) = (Vec::new(), 0, json!({}));
        loop {
            let list = result(&server, "resources/list", params).await;
            seen.extend(uris(&list).into_iter().map(str::to_owned));
            pages += 1;
            match list.get("nextCursor") {
                Some(cursor) => params = json!({"cursor": cursor}),
                None => break,
            }
        }
        assert_eq!(seen, all);
        assert_eq!(pages, if size == 0 { 1 } else { all.len().div_ceil(size) });
    }
}

#[tokio::test]
async fn a_cursor_that_nobody_gave_is_refused_before_anything_is_listed() {
    static LISTED: AtomicUsize = AtomicUsize::new(0);
    let counted = template("a:{x}", &[]).with_list(|_| async {
        LISTED.fetch_add(1, Ordering::Relaxed);
        Ok(Vec::new())
    });
    let server = Dispatch::builder("s", "1").resource_template(counted).build().unwrap();
    for text in [
        "listed resource\n2\n0",
        "listed resource\n1",
        "listed resource\n01\n0",
        "resource\n1",
        "tool\n0",
        "",
    ] {
        let cursor = base64_simd::URL_SAFE_NO_PAD.encode_to_string(text);
        let (status, code, message) = error(&server, "resources/list", json!({"cursor": cursor})).await;
        assert_eq!((status, code), (400, -32602), "{text}");
        assert_eq!(message, "the cursor is not valid: start again without `params.cursor`");
    }
    assert_eq!(LISTED.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_list_that_a_template_has_made_is_for_nobody_but_the_caller() {
    let hint = CacheHint::public(Duration::from_secs(5));
    let builder = || Dispatch::builder("s", "1").with_list_cache(hint).resource(fixed("f:1"));
    let server = builder().build().unwrap();
    assert_eq!(result(&server, "resources/list", json!({})).await["cacheScope"], "public");
    let server = builder().resource_template(template("a:{x}", &[])).build().unwrap();
    let list = result(&server, "resources/list", json!({})).await;
    assert_eq!((&list["cacheScope"], &list["ttlMs"]), (&json!("private"), &json!(5000)));
}

#[tokio::test]
async fn a_template_that_cannot_list_fails_the_request_and_tells_no_secret() {
    let broken =
        template("a:{x}", &[]).with_list(|_| async { Err(std::io::Error::other("password=1234").into()) });
    let server = Dispatch::builder("s", "1").resource_template(broken).build().unwrap();
    let failed = error(&server, "resources/list", json!({})).await;
    assert_eq!(failed, (200, -32603, "internal error".to_owned()));
}

#[tokio::test]
async fn templates_come_and_go_while_the_server_serves_and_each_change_is_told_once() {
    let server = Dispatch::builder("s", "1").resource(fixed("f:1")).build().unwrap();
    let listen = json!({"notifications": {"resourcesListChanged": true}});
    let mut stream = stream(respond(&server, "subscriptions/listen", listen).await);
    next(&mut stream).await.unwrap();
    let told = async |stream: &mut ReplyStream| {
        let mut told = 0;
        while let Ok(Some(event)) = tokio::time::timeout(Duration::ZERO, next(stream)).await {
            assert_eq!(event["method"], "notifications/resources/list_changed");
            told += 1;
        }
        told
    };
    server.add_resource_template(template("a:{x}", &["a:1"])).unwrap();
    assert_eq!(told(&mut stream).await, 1);
    assert_eq!(uris(&result(&server, "resources/list", json!({})).await), ["f:1", "a:1"]);
    assert_eq!(result(&server, "resources/read", json!({"uri": "a:7"})).await["contents"][0]["uri"], "a:7");

    let duplicate = server.add_resource_template(template("a:{x}", &[])).unwrap_err();
    assert!(matches!(duplicate, BuildError::Duplicate { name, .. } if name == "a:{x}"));
    assert!(matches!(server.add_resource_template(template("{", &[])), Err(BuildError::Template { .. })));
    let completed = template("b:{x}", &[]).with_completion("x", |_, _| async { Ok(Vec::new()) });
    let refused = server.add_resource_template(completed).unwrap_err();
    assert!(matches!(refused, BuildError::NotOffered { kind: "completion" }));
    assert!(!server.remove_resource_template("b:{x}"));
    assert_eq!(told(&mut stream).await, 0, "nothing has changed");

    assert!(server.remove_resource_template("a:{x}"));
    assert_eq!(told(&mut stream).await, 1);
    assert_eq!(uris(&result(&server, "resources/list", json!({})).await), ["f:1"]);
    assert_eq!(error(&server, "resources/read", json!({"uri": "a:7"})).await.1, -32602);
    let tools_only = Dispatch::builder("s", "1").tool(tool("a")).build().unwrap();
    let refused = tools_only.add_resource_template(template("a:{x}", &[])).unwrap_err();
    assert!(matches!(refused, BuildError::NotOffered { kind: "resource template" }));
}
