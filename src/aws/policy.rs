//! Checks whether a queue's policy still lets its topic send.
//!
//! A queue whose topic may not send stays silent however long it is polled. Policies can say more
//! than this code understands, and a negative verdict replaces the queue, so anything that cannot
//! be judged counts in the queue's favour.

use serde_json::Value;

use crate::config::TopicArn;

/// Whether `policy`, which belongs to the queue with the ARN `queue`, lets `topic` send.
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
    let says = |statement: &Value, effect: &str| statement["Effect"] == effect;
    let allows = |statement: &&Value| says(statement, "Allow") && covers(statement, topic, queue) != Some(false);
    let denies = |statement: &&Value| says(statement, "Deny") && covers(statement, topic, queue) == Some(true);
    statements.iter().any(allows) && !statements.iter().any(denies)
}

/// Whether a statement applies to this topic sending to this queue; `None` if that cannot be
/// determined.
fn covers(statement: &Value, topic: &TopicArn, queue: &str) -> Option<bool> {
    let listed = |name: &str, is_meant: &dyn Fn(&str) -> bool| statement.get(name).map(|value| any(value, is_meant));
    let parts = [
        listed("Action", &|action| is_like(&action.to_ascii_lowercase(), "sqs:sendmessage")),
        statement.get("Principal").map(is_sns),
        listed("Resource", &|resource| is_like(resource, queue)),
        statement.get("Condition").map_or(Some(true), |condition| holds(condition, topic)),
    ];
    if parts.contains(&Some(false)) {
        Some(false)
    } else {
        parts.into_iter().collect::<Option<Vec<_>>>().map(|_| true)
    }
}

fn is_sns(principal: &Value) -> bool {
    let everybody = |name: &str| name == "*";
    any(principal, &everybody)
        || any(&principal["AWS"], &everybody)
        || any(&principal["Service"], &|name| everybody(name) || name.starts_with("sns."))
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

/// In a policy, a single value may stand for a list of one.
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
    fn the_policy_that_we_made_and_what_says_the_same_in_other_words_let_the_topic_in() {
        assert!(admitted(json!([ours()])) && admitted(ours()));
        assert!(with("Principal", json!("*")) && with("Principal", json!({"AWS": ["*"]})));
        assert!(with("Action", json!(["SQS:Send*", "sqs:ReceiveMessage"])) && with("Action", json!("*")));
        assert!(with("Resource", json!(QUEUE)) && with("Resource", json!("arn:aws:sqs:*:000000000000:nearside-?")));
        assert!(with("Condition", json!({"ArnLike": {"AWS:SourceArn": ["arn:aws:sns:*:*:contexts"]}})));
        assert!(with("Condition", json!({"StringEquals": {"aws:SourceAccount": "000000000000"}})));
        assert!(with("Condition", json!({"Bool": {"aws:SecureTransport": "true"}})), "not ours to judge");
    }

    #[test]
    fn a_policy_that_is_gone_or_is_for_somebody_else_keeps_the_topic_out() {
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
    fn a_denial_counts_where_it_is_plain_and_not_where_it_depends_on_what_is_not_known() {
        let denied = |also: Value| {
            let mut deny = json!({"Effect": "Deny", "Principal": "*", "Action": "sqs:*", "Resource": "*"});
            deny.as_object_mut().unwrap().extend(also.as_object().unwrap().clone());
            !admitted(json!([ours(), deny]))
        };
        assert!(denied(json!({})));
        assert!(denied(json!({"Condition": {"ArnNotEquals": {"aws:SourceArn": "arn:aws:sns:eu-west-1:1:other"}}})));
        assert!(!denied(json!({"Condition": {"Bool": {"aws:SecureTransport": "false"}}})));
        assert!(!denied(json!({"Principal": {"AWS": "arn:aws:iam::1:root"}})));
        assert!(!denied(json!({"Action": "sqs:DeleteQueue"})));
        assert!(admits("no policy", &topic(), QUEUE), "nobody knows what it says");
    }

    #[test]
    fn a_pattern_may_hold_any_number_of_stars() {
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
