//! `[announcements]`: the way by which announcements arrive.

use std::net::SocketAddr;

use url::Url;

use super::scope::{Collector, SettingScope};
use super::table::{Rows, settings};
use super::value::words;
use crate::config::error::ConfigProblem;

settings! {
    /// `[announcements]`
    #[derive(Clone, Debug)]
    pub struct AnnouncementsConfig in Announcements {
        /// Way by which messages arrive.
        transport: Transport = Transport::read[
            /// Way by which announcements arrive: through a queue of our own per topic, by posts of SNS
            /// to us, or not at all.
            ANNOUNCEMENTS_TRANSPORT("transport", words::<TransportWord>(), Is("sqs"));
            /// With `http`: address and port at which SNS's posts arrive.
            ANNOUNCEMENTS_HTTP_LISTEN("http_listen", AddressOrNone, Is(""));
            /// With `http`: the URL by which SNS reaches that address.
            ANNOUNCEMENTS_HTTP_PUBLIC_URL("http_public_url", Url, Is(""));
        ] Restart;
        /// Overrides every AWS endpoint, for an emulator; where not written, `AWS_ENDPOINT_URL` does.
        endpoint_url: Option<Url> = ANNOUNCEMENTS_ENDPOINT_URL(Url, Is("")) Restart;
        /// INSECURE: an emulator's origin of signing certificates; only with `endpoint_url`.
        insecure_sns_signer: Option<Url> = ANNOUNCEMENTS_INSECURE_SNS_SIGNER(Url, Is("")) Restart;
        /// Our own queues.
        queues: QueuesConfig = QueuesConfig::read[
            /// With `sqs`: tags for the queues, such as those that distinguish your costs.
            ANNOUNCEMENTS_QUEUE_TAGS("queue_tags", Tags, Is(""));
            /// With `sqs`: the KMS key that encrypts the queues; none means SQS's own.
            ANNOUNCEMENTS_QUEUE_KMS_KEY("queue_kms_key", KmsKey, Is(""));
        ] Restart;
    }
}

/// Properties with which the queues of the sqs transport are created, besides those that the
/// transport itself needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueuesConfig {
    /// Name and value of each tag, for example to distinguish costs.
    pub tags: Vec<(String, String)>,
    /// The KMS key that encrypts them: an alias that each topic's region has, or a key's id. `None`
    /// uses SQS's own key.
    pub kms_key: Option<String>,
}

impl QueuesConfig {
    fn read(collector: &mut Collector, scope: &SettingScope, [tags, kms_key]: Rows<2>) -> Self {
        Self { tags: scope.get(collector, tags), kms_key: scope.get(collector, kms_key) }
    }
}

/// Way by which messages arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// One queue per topic, created and removed by this process.
    Sqs,
    /// SNS posts to us.
    Http {
        listen: SocketAddr,
        /// The URL at which SNS reaches us; the region's index is appended as a path segment.
        public_url: Url,
    },
    /// No announcements: soft TTLs only.
    Off,
}

words! {
    enum TransportWord {
        Sqs,
        Http,
        Off,
    }
}

impl Transport {
    /// Off in the place of an `http` that is incomplete.
    fn read(
        collector: &mut Collector,
        scope: &SettingScope,
        [transport, http_listen, http_public_url]: Rows<3>,
    ) -> Self {
        let word = scope.get(collector, transport);
        let listen: Option<SocketAddr> = scope.get(collector, http_listen);
        let public_url: Option<Url> = scope.get(collector, http_public_url);
        match (word, listen, public_url) {
            (TransportWord::Sqs, ..) => Self::Sqs,
            (TransportWord::Off, ..) => Self::Off,
            (TransportWord::Http, Some(listen), Some(public_url)) => Self::Http { listen, public_url },
            (TransportWord::Http, listen, public_url) => {
                let needs = [
                    (listen.is_none(), http_listen, "0.0.0.0:8702"),
                    (public_url.is_none(), http_public_url, "https://announcements.example.com"),
                ];
                let place = collector.origins.place(transport, None);
                for (_, setting, example) in needs.into_iter().filter(|(is_missing, ..)| *is_missing) {
                    let suggestion = format!("write {} = \"{example}\"", setting.key);
                    let problem = ConfigProblem::new("missing, and transport = \"http\" needs it", suggestion);
                    collector.error(setting, None, place.clone(), problem);
                }
                Self::Off
            }
        }
    }
}
