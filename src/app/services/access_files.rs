//! Reads, before the start, the files that say whose tokens are believed and who is denied, as the gate
//! reads them: `--check` refuses what the start would.

use crate::access::deny_file::DenyFile;
use crate::access::key_file::{self, KeysUnread};
use crate::config::error::{ConfigError, ConfigProblem, Place};
use crate::config::scope::Origins;
use crate::config::services::{AccessMode, KeysSource, ServicesConfig};

const KEYS: &str = "access.issuer.keys";
const DENY_FILE: &str = "access.deny_file";

/// Errors in these files, where the settings have other `errors` already: none of a file that is reported
/// there. None where callers are not checked, since nothing reads the files then.
pub(crate) fn errors(config: &ServicesConfig, origins: &Origins, errors: &[ConfigError]) -> Vec<ConfigError> {
    let access = &config.access;
    if access.mode == AccessMode::Off {
        return Vec::new();
    }
    let of_keys = access.issuers.iter().enumerate().filter_map(|(at, issuer)| {
        let KeysSource::File(file) = &issuer.keys else { return None };
        let place = unreported(origins, errors, KEYS, Some(at))?;
        Some(ConfigError::new(place, KEYS, unusable_keys(&key_file::read(&issuer.iss, file).err()?)))
    });
    let of_deny = access.deny_file.as_deref().and_then(|file| {
        let place = unreported(origins, errors, DENY_FILE, None)?;
        let wrong = DenyFile::open(file).err()?.to_string();
        // The text names the setting.
        Some(ConfigError::new(place, "", ConfigProblem::new(wrong, "correct the file; an empty one denies nobody")))
    });
    of_keys.chain(of_deny).collect()
}

/// Place of a setting that is written, and of which no error is known.
fn unreported(origins: &Origins, errors: &[ConfigError], setting: &str, item: Option<usize>) -> Option<Place> {
    let known = origins.settings.iter().find(|known| known.setting.path() == setting && known.item == item)?;
    let place = Some(&known.place).filter(|place| **place != Place::Default)?;
    let is_known = errors.iter().any(|error| error.setting == setting && error.place == *place);
    (!is_known).then(|| place.clone())
}

fn unusable_keys(unread: &KeysUnread) -> ConfigProblem {
    ConfigProblem::new(unread.to_string(), "name a file with the JWK Set that the issuer publishes")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::config::services::{ServiceRole, load_with};
    use crate::lab::issuer::Issuer;

    const ISS: &str = "https://issuer.example";

    /// Errors of a configuration with these files.
    fn found(mode: &str, keys: &str, deny: &str) -> Vec<String> {
        let directory = tempfile::tempdir().unwrap();
        let [keys, deny, service] =
            [("keys.json", keys), ("deny", deny), ("service.toml", "")].map(|(name, text)| {
                let file = directory.path().join(name);
                std::fs::write(&file, text).unwrap();
                file
            });
        let text = format!(
            "[engine]\nkind = \"memory\"\n[[catalogue.type]]\nname = \"tenant\"\n[access]\nmode = \"{mode}\"\n\
             catalogue_audience = \"c\"\nregion_audience = \"r\"\ndeny_file = \"{}\"\n\
             [[access.issuer]]\niss = \"{ISS}\"\nkeys = \"{}\"\n",
            deny.display(),
            keys.display()
        );
        std::fs::write(&service, text).unwrap();
        let loaded = load_with(ServiceRole::Catalogue, Some(&service), std::iter::empty(), errors);
        loaded.err().unwrap_or_default().iter().map(ToString::to_string).collect()
    }

    fn set(keys: &[Value]) -> String {
        json!({ "keys": keys }).to_string()
    }

    #[test]
    fn check_refuses_what_start_would() {
        let [good, other] = [Issuer::new(ISS, "one").jwk(), Issuer::new(ISS, "one").jwk()];
        let usable = set(std::slice::from_ref(&good));
        for (keys, deny, wanted) in [
            (set(&[]), "", "none of its keys can be used"),
            (set(&[json!({"kty": "oct", "k": "c2VjcmV0"})]), "", "none of its keys can be used"),
            (set(&[good.clone(), other]), "", "are called one"),
            ("{}".to_owned(), "", "no JSON object with a list `keys`"),
            (usable.clone(), "garbage", "line 1: write `consumer NAME`"),
            (usable.clone(), "\u{feff}consumer jira", "line 1: write `consumer NAME`"),
            (usable.clone(), r#"{"consumers": [], "foo": 1}"#, "the members are"),
        ] {
            let errors = found("observe", &keys, deny);
            let is_named = errors.len() == 1 && errors[0].contains(wanted) && errors[0].contains("service.toml:");
            assert!(is_named, "{wanted}: {errors:#?}");
            // Nothing reads them then.
            assert_eq!(found("off", &keys, deny), Vec::<String>::new(), "{wanted}");
        }
        assert_eq!(found("enforce", &usable, "consumer jira"), Vec::<String>::new());
        // What the settings' own check finds is reported once.
        assert_eq!(found("enforce", "garbage", "").len(), 1);
    }
}
