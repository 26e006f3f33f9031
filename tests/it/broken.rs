//! `--check` of a service on broken files: everything that is wrong is reported at once, each with
//! its place and what to do, and the exit code is 2.

use std::path::Path;

use super::program::{path, run, text};

/// A broken file.
struct Broken {
    name: &'static str,
    command: &'static [&'static str],
    service: &'static str,
    /// `views.toml`, and `tenant.json`, if there is one.
    views: Option<&'static str>,
    schema: Option<&'static str>,
    /// Beginning of each line, without the directory, and its advice.
    reported: &'static [(&'static str, &'static str)],
}

const MEMORY: &str = "[engine]\nkind = \"memory\"\n[[catalogue.type]]\nname = \"tenant\"\n";
const TWO_REGIONS: &str = "[engine]\nkind = \"memory\"\n[[catalogue.type]]\nname = \"tenant\"\n\
    [[region]]\nname = \"eu-west-1\"\n[[region]]\nname = \"us-east-1\"\n";
const BROKEN: Broken =
    Broken { name: "", command: &["catalogue"], service: MEMORY, views: None, schema: None, reported: &[] };

const TABLE: &[Broken] = &[
    Broken {
        name: "it is no TOML",
        service: "[engine\nkind = \"memory\"\n",
        reported: &[("service.toml:1:8: ", "]")],
        ..BROKEN
    },
    Broken {
        name: "keys that mean nothing, and one that is misspelt",
        service: "[engine]\nkind = \"memory\"\nzebra = 1\n[catalogue]\nmax_conections = 5\n\
                  [[catalogue.type]]\nname = \"tenant\"\n",
        reported: &[
            ("service.toml:3:1: engine: no setting is called `zebra`", "known here: kind"),
            ("service.toml:5:1: catalogue: no setting is called `max_conections`", "did you mean max_connections?"),
        ],
        ..BROKEN
    },
    Broken {
        name: "a file of views with five errors, and one in the settings",
        command: &["views"],
        service: "[engine]\nkind = \"memory\"\n[[catalogue.type]]\nname = \"tenant\"\n\
                  [views]\nfile = \"DIR/views.toml\"\nrate = 0\n",
        views: Some(
            "[[view]]\nname = \"Limits\"\ndefinition = 0\nfrom = \"tenent\"\nneeds = { shard = \"shard\" }\n\
             [view.fields]\nusers = \"users\"\n",
        ),
        reported: &[
            ("service.toml:7:8: views.rate: 0 is out of range", "from 1 to 100000"),
            ("views.toml:2:8: view.name: `Limits` is not a name", "a lower-case letter"),
            ("views.toml:3:14: view.definition: `0` is out of range", "definition = 1"),
            ("views.toml:4:8: view: the catalogue has no type `tenent`", "did you mean tenant?"),
            ("views.toml:5:19: view.needs.shard: `shard` has no record type", "shard:{/shard}"),
            ("views.toml:7:9: view.fields.users: `users` is no JSON Pointer", "/pointer"),
        ],
        ..BROKEN
    },
    Broken {
        name: "a file of views that is not there",
        command: &["views"],
        service: "[engine]\nkind = \"memory\"\n[views]\nfile = \"DIR/views.toml\"\n",
        reported: &[("service.toml:4:8: views.file: ", "create it, or correct the path")],
        ..BROKEN
    },
    Broken {
        name: "no file of views",
        command: &["views"],
        reported: &[("service.toml: views.file: missing", "[views]")],
        ..BROKEN
    },
    Broken {
        name: "a schema that is none",
        service: "[engine]\nkind = \"memory\"\n[[catalogue.type]]\nname = \"tenant\"\nschema = \"DIR/tenant.json\"\n\
                  [views]\nfile = \"DIR/views.toml\"\n",
        views: Some("[[view]]\n"),
        schema: Some("{\"type\": 5}"),
        reported: &[
            ("tenant.json: catalogue.type.schema: the schema of `tenant` does not compile at ", "correct the schema"),
            ("views.toml:1:1: view.definition: missing", "definition = 1"),
            ("views.toml:1:1: view.fields: missing", "[view.fields]"),
            ("views.toml:1:1: view.from: missing", "from = "),
            ("views.toml:1:1: view.name: missing", "name = "),
        ],
        ..BROKEN
    },
    Broken {
        name: "a region that the file does not have, and a port twice",
        command: &["region", "--name", "eu-west-2"],
        service: "[engine]\nkind = \"memory\"\n[[region]]\nname = \"eu-west-1\"\nlisten = \"127.0.0.1:8745\"\n\
                  [[region]]\nname = \"us-east-1\"\n",
        reported: &[
            ("service.toml:5:10: region.listen: port 8745 is region.admin's already", "write another port"),
            ("--name: no region is called `eu-west-2`", "did you mean eu-west-1?"),
        ],
        ..BROKEN
    },
    Broken {
        name: "several regions, and none is named",
        command: &["region"],
        service: TWO_REGIONS,
        reported: &[("--name: the file has 2 regions", "eu-west-1, us-east-1")],
        ..BROKEN
    },
    Broken {
        name: "a directory that cannot be made",
        service: "[engine]\nkind = \"embedded\"\ndirectory = \"DIR/service.toml/data\"\n\
                  [[catalogue.type]]\nname = \"tenant\"\n",
        reported: &[("service.toml:3:13: engine.directory: the directory ", "create it")],
        ..BROKEN
    },
    Broken {
        name: "a directory that is a file",
        service: "[engine]\nkind = \"embedded\"\ndirectory = \"DIR/service.toml\"\n\
                  [[catalogue.type]]\nname = \"tenant\"\n",
        reported: &[("service.toml:3:13: engine.directory: ", "where one can be made")],
        ..BROKEN
    },
    Broken {
        name: "topics that are none",
        command: &["region", "--name", "eu-west-1"],
        service: "[engine]\nkind = \"aws\"\nregion = \"home\"\n[[region]]\nname = \"eu-west-1\"\n\
                  topic = \"arn:aws:sqs:eu-west-1:123456789012:changes\"\n[[region]]\nname = \"us-east-1\"\n",
        reported: &[
            ("service.toml:3:10: engine.region: `home` is not a region of AWS", "eu-west-1"),
            ("service.toml:6:9: region.topic: ", "write arn:aws:sns:REGION:ACCOUNT:NAME"),
            ("service.toml:8:8: region.topic: missing", "write topic = "),
        ],
        ..BROKEN
    },
    Broken {
        name: "a type whose name is none is no error of the views too",
        command: &["views"],
        service: "[engine]\nkind = \"memory\"\n[[catalogue.type]]\nname = \"Tenant\"\n\
                  [views]\nfile = \"DIR/views.toml\"\n",
        views: Some("[[view]]\nname = \"a\"\ndefinition = 1\nfrom = \"tenant\"\n[view.fields]\nx = \"/x\"\n"),
        reported: &[("service.toml:4:8: catalogue.type.name: `Tenant` is not a name", "lower-case")],
        ..BROKEN
    },
];

impl Broken {
    fn write(&self, directory: &Path) {
        let text = self.service.replace("DIR", path(directory));
        std::fs::write(directory.join("service.toml"), text).unwrap();
        for (name, text) in [("views.toml", self.views), ("tenant.json", self.schema)] {
            if let Some(text) = text {
                std::fs::write(directory.join(name), text).unwrap();
            }
        }
    }

    /// Difference from the expected lines, if there is one.
    fn try_out(&self) -> Option<String> {
        let directory = tempfile::tempdir().unwrap();
        self.write(directory.path());
        let file = directory.path().join("service.toml");
        let output = run(&[self.command, &["--config", path(&file), "--check"]].concat());
        let said =
            text(&output.stderr).replace(&format!("{}/", path(directory.path())), "").replace(": error: ", ": ");
        let lines: Vec<&str> =
            said.lines().filter(|line| !line.ends_with("error") && !line.ends_with("errors")).collect();
        let is_all = lines.len() == self.reported.len()
            && lines
                .iter()
                .zip(self.reported)
                .all(|(line, (begins, holds))| line.starts_with(begins) && line.contains(holds));
        (!is_all || output.status.code() != Some(2))
            .then(|| format!("{}: {:?}\n{said}", self.name, output.status.code()))
    }
}

#[test]
fn broken_files_are_reported_with_remedy() {
    assert!(TABLE.len() >= 10);
    let poor: Vec<String> = TABLE.iter().filter_map(Broken::try_out).collect();
    assert!(poor.is_empty(), "{} of {}:\n{}", poor.len(), TABLE.len(), poor.join("\n"));
}
