//! Parses a topic's ARN, whose partition and region decide which host is asked for certificates and
//! queues. The parts of an ARN that parses hold only letters, digits, `-` and `_`, so they can go
//! into a host name or a queue policy unchanged.

use std::fmt;
use std::str::FromStr;

use crate::config::error::{ConfigProblem, quoted};

/// A checked `arn:PARTITION:sns:REGION:ACCOUNT:NAME`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TopicArn {
    pub arn: String,
    /// `aws`, `aws-cn`, `aws-us-gov`.
    pub partition: String,
    /// `eu-west-1`
    pub region: String,
    /// Twelve digits.
    pub account: String,
    pub name: String,
}

/// The shape that every error message shows.
const SHAPE: &str =
    "write arn:aws:sns:REGION:ACCOUNT:NAME, such as arn:aws:sns:eu-west-1:123456789012:context-changes";

impl FromStr for TopicArn {
    type Err = ConfigProblem;

    fn from_str(text: &str) -> Result<Self, ConfigProblem> {
        let parts: Vec<&str> = text.split(':').collect();
        let [scheme, partition, service, region, account, name] = parts.as_slice() else {
            return Err(ConfigProblem::new(format!("{} is not the ARN of an SNS topic", quoted(text)), SHAPE));
        };
        if *scheme != "arn" || *service != "sns" {
            return Err(ConfigProblem::new(format!("{} is not the ARN of an SNS topic", quoted(text)), SHAPE));
        }
        if !partition_has(partition, region) {
            let what = format!("{} is not a region of the partition {}", quoted(region), quoted(partition));
            let suggestion = "write a partition of aws, aws-cn or aws-us-gov and a region of it, such as eu-west-1";
            return Err(ConfigProblem::new(what, suggestion));
        }
        if account.len() != 12 || !account.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(ConfigProblem::new(
                format!("{} is not an account", quoted(account)),
                "write its twelve digits",
            ));
        }
        if name.ends_with(".fifo") {
            return Err(ConfigProblem::new(
                "a FIFO topic",
                "announce on a standard topic: order comes from versions, not from the topic",
            ));
        }
        if name.is_empty() || name.len() > 256 || !name.bytes().all(is_name_byte) {
            let suggestion = "write 1 to 256 letters, digits, `-` and `_`";
            return Err(ConfigProblem::new(format!("{} is not the name of a topic", quoted(name)), suggestion));
        }
        Ok(Self {
            arn: text.to_owned(),
            partition: (*partition).to_owned(),
            region: (*region).to_owned(),
            account: (*account).to_owned(),
            name: (*name).to_owned(),
        })
    }
}

impl fmt::Display for TopicArn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.arn)
    }
}

/// Returns whether `name` is built as AWS names its regions: `eu-west-1`, `us-gov-east-1`.
pub(super) fn is_like_aws(name: &str) -> bool {
    const PLACES: [&str; 10] = ["af", "ap", "ca", "cn", "eu", "il", "me", "mx", "sa", "us"];
    const SIDES: [&str; 10] =
        ["central", "east", "gov", "north", "northeast", "northwest", "south", "southeast", "southwest", "west"];
    let words: Vec<&str> = name.split('-').collect();
    let [place, sides @ .., number] = words.as_slice() else { return false };
    PLACES.contains(place)
        && (1..=2).contains(&sides.len())
        && sides.iter().all(|side| SIDES.contains(side))
        && (1..=2).contains(&number.len())
        && number.bytes().all(|byte| byte.is_ascii_digit())
}

const fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

/// Returns whether `region` looks like a region (`eu-west-1`, `us-gov-east-1`) of `partition`.
fn partition_has(partition: &str, region: &str) -> bool {
    let words: Vec<&str> = region.split('-').collect();
    let Some((number, words)) = words.split_last() else { return false };
    let shaped = (2..=4).contains(&words.len())
        && words.iter().all(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase()))
        && (1..=2).contains(&number.len())
        && number.bytes().all(|byte| byte.is_ascii_digit());
    let (china, government) = (region.starts_with("cn-"), region.starts_with("us-gov-"));
    shaped
        && match partition {
            "aws" => !china && !government,
            "aws-cn" => china,
            "aws-us-gov" => government,
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arn_is_taken_apart() {
        let topic: TopicArn = "arn:aws:sns:eu-west-1:123456789012:context-changes".parse().unwrap();
        assert_eq!(
            (topic.partition.as_str(), topic.region.as_str(), topic.account.as_str(), topic.name.as_str()),
            ("aws", "eu-west-1", "123456789012", "context-changes")
        );
        for arn in ["arn:aws-cn:sns:cn-north-1:000000000000:t", "arn:aws-us-gov:sns:us-gov-west-1:000000000000:t"] {
            assert_eq!(arn.parse::<TopicArn>().unwrap().to_string(), arn);
        }
    }

    #[test]
    fn aws_region_names_are_recognized() {
        for name in ["eu-west-1", "ap-southeast-2", "us-gov-east-1", "mx-central-1", "cn-northwest-1"] {
            assert!(is_like_aws(name), "{name}");
        }
        for name in
            ["", "a", "eu", "eu-1", "west-1", "eu-berlin-1", "eu-west", "eu-west-1a", "EU-WEST-1", "eu-west-001"]
        {
            assert!(!is_like_aws(name), "{name}");
        }
    }

    #[test]
    fn arns_leading_elsewhere_are_refused() {
        for arn in [
            "",
            "context-changes",
            "arn:aws:sqs:eu-west-1:123456789012:t",
            "arn:aws:sns:eu-west-1:123456789012",
            "arn:aws:sns:eu-west-1:123456789012:t:subscription",
            "arn:aws:sns:eu-west-1.evil.example:123456789012:t",
            "arn:aws:sns:evil.example/#-1:123456789012:t",
            "arn:aws:sns:cn-north-1:123456789012:t",
            "arn:aws-cn:sns:eu-west-1:123456789012:t",
            "arn:evil:sns:eu-west-1:123456789012:t",
            "arn:aws:sns:eu-west-1:12345678901x:t",
            "arn:aws:sns:eu-west-1:1234:t",
            "arn:aws:sns:eu-west-1:123456789012:",
            "arn:aws:sns:eu-west-1:123456789012:a\"b",
            "arn:aws:sns:eu-west-1:123456789012:t.fifo",
            "arn:aws:sns:EU-WEST-1:123456789012:t",
            "arn:aws:sns::123456789012:t",
            " arn:aws:sns:eu-west-1:123456789012:t",
        ] {
            assert!(arn.parse::<TopicArn>().is_err(), "{arn}");
        }
    }
}
