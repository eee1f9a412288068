//! Tokens good and bad, with keys that are given.

use jsonwebtoken::{Algorithm, EncodingKey};
use mcp_layers::layers::auth::{JwtVerifier, StaticKeys};
use serde_json::{Value, json};

use crate::issuer::{Guarded, ISSUER, ME, NOW, Signer, claims, eddsa, encode, es256, good, jwks, rs256};

fn keys(signers: &[&Signer]) -> StaticKeys {
    StaticKeys::from_jwks(jwks(signers)).expect("keys")
}

fn guarded(signers: &[&Signer]) -> Guarded<JwtVerifier> {
    Guarded::new(JwtVerifier::new(ISSUER, ME, keys(signers)))
}

const MALFORMED: &str = "the token is not a signed JWT";
const UNFIT: &str = "the token is signed in a way that this server does not take (alg)";
const UNFIT_FOR_KEY: &str = "the token is signed in a way that does not fit its key (alg)";

#[tokio::test]
async fn a_good_token_of_each_kind_is_a_principal() {
    let signers = [rs256("r", 0), es256("e"), eddsa("d", 1)];
    let server = guarded(&signers.each_ref());
    for signer in &signers {
        let token = signer.sign(&claims(|claims| claims["client_id"] = "app".into()));
        for _ in 0..2 {
            let principal = server.show(&token).await.passed();
            assert_eq!(
                (principal.issuer(), principal.subject(), principal.client()),
                (ISSUER, "ada", Some("app"))
            );
            assert_eq!(principal.scopes(), ["files:read"]);
            let known = principal.clone().with_credential(token.as_bytes());
            assert_eq!(principal.credential(), known.credential());
        }
    }
}

#[tokio::test]
async fn claims_that_are_not_for_this_server_are_refused() {
    let signer = eddsa("d", 1);
    let server = guarded(&[&signer]);
    let issuer = "the token is from an issuer that this server does not trust (iss)";
    let audience = "the token is meant for another server (aud)";
    let cases: [(&str, Value, &str); 9] = [
        ("aud", json!("https://other.example"), audience),
        ("aud", json!(format!("{ME}/")), audience),
        ("aud", json!(["https://other.example"]), audience),
        ("aud", json!(null), audience),
        ("iss", json!("https://other.example"), issuer),
        ("iss", json!(format!("{ISSUER}/")), issuer),
        ("exp", json!(NOW - 60), "the token has expired"),
        ("nbf", json!(NOW + 61), "the token is not valid yet (nbf)"),
        ("scope", json!(7), "the token's scopes are neither text nor a list of texts"),
    ];
    for (name, value, reason) in cases {
        server.show(&signer.sign(&claims(|claims| claims[name] = value))).await.refused(reason);
    }
    let without =
        |name: &str| signer.sign(&claims(|claims| drop(claims.as_object_mut().unwrap().remove(name))));
    server.show(&without("aud")).await.refused("the token does not say whom it is meant for (aud)");
    server.show(&without("iss")).await.refused("the token does not say who issued it (iss)");
    server.show(&without("exp")).await.refused("the token does not say when it expires (exp)");

    let slash = Guarded::new(JwtVerifier::new(format!("{ISSUER}/"), ME, keys(&[&signer])));
    slash.show(&signer.sign(&good())).await.refused(issuer);
    slash.show(&signer.sign(&claims(|claims| claims["iss"] = format!("{ISSUER}/").into()))).await.passed();
    let two =
        Guarded::new(JwtVerifier::new(ISSUER, "https://old.example", keys(&[&signer])).with_audience(ME));
    two.show(&signer.sign(&claims(|claims| claims["aud"] = json!(["x", ME])))).await.passed();
}

#[tokio::test]
async fn a_token_without_a_signature_is_refused() {
    let signer = eddsa("d", 1);
    let server = guarded(&[&signer]);
    for alg in ["none", "None", "NONE", "nOnE"] {
        let header = encode(&json!({"alg": alg, "kid": "d"}));
        server.show(&format!("{header}.{}.", encode(&good()))).await.refused(UNFIT);
        server.show(&format!("{header}.{}.AAAA", encode(&good()))).await.refused(UNFIT);
    }
    let token = signer.sign(&good());
    let (message, _) = token.rsplit_once('.').unwrap();
    server.show(&format!("{message}.")).await.refused("the token's signature is wrong");
    server.show(&format!("{message}.AAAA")).await.refused("the token's signature is wrong");
    let other = eddsa("d", 2).sign(&good());
    server.show(&other).await.refused("the token's signature is wrong");
    let parts: Vec<_> = token.split('.').collect();
    let forged =
        format!("{}.{}.{}", parts[0], encode(&claims(|claims| claims["sub"] = "root".into())), parts[2]);
    server.show(&forged).await.refused("the token's signature is wrong");
}

#[tokio::test]
async fn a_public_key_is_no_secret() {
    let signer = rs256("r", 0);
    let server = guarded(&[&signer]);
    let public = signer.jwk();
    for secret in [public["n"].as_str().unwrap().to_owned(), public.to_string()] {
        let header = encode(&json!({"alg": "HS256", "kid": "r"}));
        let message = format!("{header}.{}", encode(&good()));
        let key = EncodingKey::from_secret(secret.as_bytes()).unwrap();
        let signature = jsonwebtoken::crypto::sign(message.as_bytes(), &key, Algorithm::HS256).unwrap();
        server.show(&format!("{message}.{signature}")).await.refused(UNFIT_FOR_KEY);
    }
}

#[tokio::test]
async fn a_shared_secret_is_taken_only_where_it_was_given() {
    let secret = EncodingKey::from_secret(&[7; 32]).unwrap();
    let message = format!("{}.{}", encode(&json!({"alg": "HS256", "kid": "x"})), encode(&good()));
    let signature = jsonwebtoken::crypto::sign(message.as_bytes(), &secret, Algorithm::HS256).unwrap();
    let token = format!("{message}.{signature}");
    let server = Guarded::new(JwtVerifier::new(ISSUER, ME, StaticKeys::from_secret([7; 32]).unwrap()));
    server.show(&token).await.passed();
    server.show(&eddsa("d", 1).sign(&good())).await.refused(UNFIT_FOR_KEY);
    let other = Guarded::new(JwtVerifier::new(ISSUER, ME, StaticKeys::from_secret([8; 32]).unwrap()));
    other.show(&token).await.refused("the token's signature is wrong");
}

#[tokio::test]
async fn what_is_no_signed_jwt_is_refused() {
    let signer = eddsa("d", 1);
    let server = guarded(&[&signer]);
    for token in ["a", "a.b", "a.b.c", "a.b.c.d", "a.b.c.d.e", "..", "....", "e30.e30.e30.e30.e30"] {
        server.show(token).await.refused(MALFORMED);
    }
    let five = format!("{}.a.b", signer.sign(&good()));
    server.show(&five).await.refused(MALFORMED);
    server.show(&"a".repeat(1 << 20)).await.refused("the token is malformed or too long");
    let crit = "the token asks for an extension that this server does not know (crit)";
    for value in [json!(["exp"]), json!(["b64"]), json!([]), json!(null)] {
        server.show(&signer.sign_with(|header| header["crit"] = value, &good())).await.refused(crit);
    }
    server.show(&signer.sign_with(|header| header["kid"] = json!(1), &good())).await.refused(MALFORMED);
    server.show(&signer.sign_with(|header| header["alg"] = json!(["EdDSA"]), &good())).await.refused(UNFIT);
    server.show(&signer.sign(&json!([]))).await.refused(MALFORMED);
}

#[tokio::test]
async fn a_token_that_names_a_member_twice_is_refused() {
    let signer = eddsa("d", 1);
    let server = guarded(&[&signer]);
    let header = r#"{"alg":"EdDSA","kid":"d"}"#;
    let claims = good().to_string();
    let twice = |text: &str, member: &str| format!("{},{member}}}", text.strip_suffix('}').unwrap());
    server.show(&signer.sign_text(header, &claims)).await.passed();
    for member in [r#""alg":"EdDSA""#, r#""kid":"d""#, r#""k\u0069d":"d""#] {
        server.show(&signer.sign_text(&twice(header, member), &claims)).await.refused(MALFORMED);
    }
    for member in
        [r#""sub":"root""#, r#""s\u0075b":"ada""#, r#""scope":"files:read admin""#, r#""exp":9999999999"#]
    {
        server.show(&signer.sign_text(header, &twice(&claims, member))).await.refused(MALFORMED);
    }
}

#[tokio::test]
async fn the_key_is_chosen_by_name_type_algorithm_and_use() {
    let unknown = "the token is signed with a key that the issuer does not publish";
    let (one, two, rsa) = (eddsa("1", 1), eddsa("2", 2), rs256("1", 0));
    let server = guarded(&[&one, &two, &rsa]);
    for signer in [&one, &two, &rsa] {
        server.show(&signer.sign(&good())).await.passed();
    }
    server.show(&eddsa("3", 3).sign(&good())).await.refused(unknown);
    let nameless = |signer: &Signer| {
        signer.sign_with(|header| drop(header.as_object_mut().unwrap().remove("kid")), &good())
    };
    server.show(&nameless(&rsa)).await.passed();
    server
        .show(&nameless(&one))
        .await
        .refused("the token does not say with which of several keys it is signed (kid)");
    server.show(&nameless(&es256("e"))).await.refused(unknown);
    // One key may be listed for each of its algorithms, and is good for those alone.
    let [mut long, mut longest] = [rs256("1", 0), rs256("1", 0)];
    (long.algorithm, longest.algorithm) = (Algorithm::RS384, Algorithm::RS512);
    let listed = guarded(&[&rsa, &long]);
    for signer in [&rsa, &long] {
        listed.show(&signer.sign(&good())).await.passed();
    }
    listed.show(&longest.sign(&good())).await.refused(UNFIT_FOR_KEY);
    // A key in the token is not looked at.
    let mallory = eddsa("m", 9);
    let smuggled = mallory.sign_with(|header| header["jwk"] = mallory.jwk(), &good());
    server.show(&smuggled).await.refused(unknown);

    let with = |change: &dyn Fn(&mut Value)| {
        let mut jwk = one.jwk();
        change(&mut jwk);
        StaticKeys::from_jwks(json!({"keys": [jwk]}).to_string())
    };
    assert!(with(&|_| {}).is_ok());
    assert!(with(&|jwk| jwk["use"] = "enc".into()).is_err());
    assert!(with(&|jwk| jwk["key_ops"] = json!(["sign"])).is_err());
    assert!(with(&|jwk| jwk["alg"] = "RS256".into()).is_err());
    assert!(with(&|jwk| jwk["x"] = "AAAA".into()).is_err());
    assert!(with(&|jwk| *jwk = json!({"kty": "oct", "k": "AAAA"})).is_err());
}

#[tokio::test]
async fn a_type_is_asked_for_where_it_is_set() {
    let signer = eddsa("d", 1);
    let server = Guarded::new(JwtVerifier::new(ISSUER, ME, keys(&[&signer])).with_type("at+jwt"));
    for typ in ["at+jwt", "AT+JWT", "application/at+jwt"] {
        server.show(&signer.sign_with(|header| header["typ"] = typ.into(), &good())).await.passed();
    }
    for typ in [json!("JWT"), json!(null), json!(["at+jwt"])] {
        let token = signer.sign_with(|header| header["typ"] = typ, &good());
        server.show(&token).await.refused("the token is of a type that this server does not take (typ)");
    }
}

#[tokio::test]
async fn a_remembered_token_lives_no_longer_than_it_says() {
    let signer = eddsa("d", 1);
    let server = guarded(&[&signer]);
    let token = signer.sign(&good());
    server.show(&token).await.passed();
    server.later(299);
    server.show(&token).await.passed();
    server.later(60);
    server.show(&token).await.passed();
    server.later(1);
    server.show(&token).await.refused("the token has expired");
    let early = signer.sign(&claims(|claims| {
        claims["exp"] = (NOW + 10_000).into();
        claims["nbf"] = (NOW + 1000).into();
    }));
    server.show(&early).await.refused("the token is not valid yet (nbf)");
    server.later(600);
    server.show(&early).await.passed();
}
