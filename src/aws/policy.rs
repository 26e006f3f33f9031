//! Checks whether a queue's policy still lets its topic send.
//!
//! A queue whose topic may not send stays silent however long it is polled. Policies can say more
//! than this code understands, and a negative verdict replaces the queue, so anything that cannot
//! be judged counts in the queue's favour.

use serde_json::Value;

use crate::config::TopicArn;

/// True if `policy`, which belongs to the queue with the ARN `queue`, lets `topic` send.
pub(crate) fn admits(policy: &str, topic: &TopicArn, queue: &str) -> bool {
    if policy.trim().is_empty() {
        return false;
    }
    let Ok(policy) = serde_json::from_str::<Value>(policy) else { return true };
    let statements = match &policy["Statement"] {
        Value::Array(all) => all.iter().collect(),
        Value::Null => Vec::new(),
        one => vec![one],
    };
    statements
        .iter()
        .any(|statement| statement["Effect"] == "Allow" && covers(statement, topic, queue) != Some(false))
        && !statements
            .iter()
            .any(|statement| statement["Effect"] == "Deny" && covers(statement, topic, queue) == Some(true))
}

/// True if a statement applies to this topic sending to this queue; `None` if that cannot be
/// determined.
fn covers(statement: &Value, topic: &TopicArn, queue: &str) -> Option<bool> {
    let parts = [
        statement
            .get("Action")
            .map(|value| any(value, &|action| is_like(&action.to_ascii_lowercase(), "sqs:sendmessage"))),
        statement.get("Principal").map(is_sns),
        statement.get("Resource").map(|value| any(value, &|resource| is_like(resource, queue))),
        statement.get("Condition").map_or(Some(true), |condition| holds(condition, topic)),
    ];
    if parts.contains(&Some(false)) {
        Some(false)
    } else {
        parts.into_iter().collect::<Option<Vec<_>>>().map(|_| true)
    }
}

fn is_sns(principal: &Value) -> bool {
    any(principal, &is_everybody)
        || any(&principal["AWS"], &is_everybody)
        || any(&principal["Service"], &|name| is_everybody(name) || name.starts_with("sns."))
}

fn is_everybody(name: &str) -> bool {
    name == "*"
}

/// Understands only conditions on the source; anything else gives `None`.
fn holds(condition: &Value, topic: &TopicArn) -> Option<bool> {
    let mut all = Some(true);
    for (operator, keys) in condition.as_object()? {
        let compares = ["ArnEquals", "ArnLike", "StringEquals", "StringLike"];
        let (operator, negated) = (operator.replacen("Not", "", 1), operator.contains("Not"));
        let is_known = compares.contains(&operator.trim_end_matches("IfExists"));
        for (key, values) in keys.as_object()? {
            let source = match key.to_ascii_lowercase().as_str() {
                "aws:sourcearn" => Some(&topic.arn),
                "aws:sourceaccount" => Some(&topic.account),
                _ => None,
            };
            match source.filter(|_| is_known).map(|source| any(values, &|value| is_like(value, source)) != negated) {
                Some(true) => {}
                Some(false) => return Some(false),
                None => all = None,
            }
        }
    }
    all
}

/// True if any value of a policy's list is meant; a single value stands for a list of one.
fn any(value: &Value, is_meant: &dyn Fn(&str) -> bool) -> bool {
    match value {
        Value::Array(all) => all.iter().filter_map(Value::as_str).any(is_meant),
        one => one.as_str().is_some_and(is_meant),
    }
}

/// Matches `text` against `pattern`, in which `*` stands for any text and `?` for any single
/// character.
fn is_like(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut place) = (0, 0);
    // Position of the last `*` in the pattern, and how far into the text it reaches.
    let mut star = None;
    while place < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, place));
                at += 1;
            }
            Some(letter) if *letter == b'?' || *letter == text[place] => (at, place) = (at + 1, place + 1),
            _ => {
                let Some((starred, reached)) = star else { return false };
                star = Some((starred, reached + 1));
                (at, place) = (starred + 1, reached + 1);
            }
        }
    }
    pattern[at..].iter().all(|letter| *letter == b'*')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const QUEUE: &str = "arn:aws:sqs:eu-west-1:000000000000:nearside-x";

    fn topic() -> TopicArn {
        TopicArn {
            arn: "arn:aws:sns:eu-west-1:000000000000:contexts".to_owned(),
            partition: "aws".to_owned(),
            region: "eu-west-1".to_owned(),
            account: "000000000000".to_owned(),
            name: "contexts".to_owned(),
        }
    }

    fn ours() -> Value {
        json!({
            "Effect": "Allow", "Principal": {"Service": "sns.amazonaws.com"}, "Action": "sqs:SendMessage",
            "Resource": "*", "Condition": {"ArnEquals": {"aws:SourceArn": topic().arn}},
        })
    }

    fn admitted(statements: Value) -> bool {
        admits(&json!({"Version": "2012-10-17", "Statement": statements}).to_string(), &topic(), QUEUE)
    }

    /// Our own policy with one member changed.
    fn with(member: &str, value: Value) -> bool {
        let mut statement = ours();
        statement[member] = value;
        admitted(json!([statement]))
    }

    #[test]
    fn own_and_equivalent_policies_admit_topic() {
        assert!(admitted(json!([ours()])) && admitted(ours()));
        assert!(with("Principal", json!("*")) && with("Principal", json!({"AWS": ["*"]})));
        assert!(with("Action", json!(["SQS:Send*", "sqs:ReceiveMessage"])) && with("Action", json!("*")));
        assert!(with("Resource", json!(QUEUE)) && with("Resource", json!("arn:aws:sqs:*:000000000000:nearside-?")));
        assert!(with("Condition", json!({"ArnLike": {"AWS:SourceArn": ["arn:aws:sns:*:*:contexts"]}})));
        assert!(with("Condition", json!({"StringEquals": {"aws:SourceAccount": "000000000000"}})));
        assert!(with("Condition", json!({"Bool": {"aws:SecureTransport": "true"}})), "not ours to judge");
    }

    #[test]
    fn missing_or_foreign_policy_denies_topic() {
        assert!(!admits("", &topic(), QUEUE) && !admits("{}", &topic(), QUEUE) && !admitted(json!([])));
        assert!(!with("Effect", json!("Deny")));
        assert!(!with("Principal", json!({"AWS": "arn:aws:iam::000000000000:root"})));
        assert!(!with("Principal", json!({"Service": ["events.amazonaws.com"]})));
        assert!(!with("Action", json!("sqs:ReceiveMessage")));
        assert!(!with("Resource", json!("arn:aws:sqs:eu-west-1:000000000000:other")));
        assert!(!with("Condition", json!({"ArnEquals": {"aws:SourceArn": format!("{}2", topic().arn)}})));
        assert!(!with("Condition", json!({"ArnNotLike": {"aws:SourceArn": "arn:aws:sns:*"}})));
        assert!(!with("Condition", json!({"StringEquals": {"aws:SourceAccount": "999999999999"}})));
    }

    #[test]
    fn only_certain_denial_counts() {
        assert!(is_denied_by(json!({})));
        assert!(is_denied_by(
            json!({"Condition": {"ArnNotEquals": {"aws:SourceArn": "arn:aws:sns:eu-west-1:1:other"}}})
        ));
        assert!(!is_denied_by(json!({"Condition": {"Bool": {"aws:SecureTransport": "false"}}})));
        assert!(!is_denied_by(json!({"Principal": {"AWS": "arn:aws:iam::1:root"}})));
        assert!(!is_denied_by(json!({"Action": "sqs:DeleteQueue"})));
        assert!(admits("no policy", &topic(), QUEUE), "nobody knows what it says");
    }

    /// Returns whether our own statement counts for nothing beside a denial that also says this.
    fn is_denied_by(also: Value) -> bool {
        let mut deny = json!({"Effect": "Deny", "Principal": "*", "Action": "sqs:*", "Resource": "*"});
        deny.as_object_mut().unwrap().extend(also.as_object().unwrap().clone());
        !admitted(json!([ours(), deny]))
    }

    #[test]
    fn pattern_allows_any_number_of_stars() {
        for (pattern, text, fits) in [
            ("*", "", true),
            ("a*b*c", "axxbyybzc", true),
            ("a*b*c", "axxbyyb", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("**a", "bba", true),
            ("", "a", false),
        ] {
            assert_eq!(is_like(pattern, text), fits, "{pattern} {text}");
        }
    }
}
