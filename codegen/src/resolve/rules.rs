//! What a face makes of its handler's rules.
//!
//! Answers for one derivation that the description, the schema, the tables and the checks share. A rule speaks of the
//! input as the handler gets it: with defaults filled in and bound fields set. A caller cannot send every field of it, so
//! for a face a rule is kept, narrowed, turned into a required field, dropped because it always holds, or at fault
//! because no call or not every call could keep it. Leaves out the words for all that.

use devloop_contract::value::same;
use serde_json::{Map, Value};

use super::{settled, with_defaults};
use crate::model::{FaceSpec, RequiredIf, RuleSpec, Schema};

/// The rules of one face.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FaceRules {
    /// Those that its callers have to keep.
    pub(crate) rules: Vec<RuleSpec>,
    /// Fields that must be sent because of a rule.
    pub(crate) forced: Vec<String>,
    /// Rules that do not go with the face.
    pub(crate) faults: Vec<Fault>,
}

/// A rule that does not go with a face.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fault {
    /// The index of the rule.
    pub(crate) rule: usize,
    /// Why.
    pub(crate) why: Why,
}

/// Why a rule does not go with a face.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Why {
    /// Exactly one is to be given, and all are hidden.
    NoneLeft,
    /// These are bound or required, of which one may be given.
    TwoGiven(Vec<String>),
    /// `given` is bound, so these could only be sent in vain.
    InVain { given: String, others: Vec<String> },
    /// The field can be required, and is hidden.
    Hidden(String),
}

/// What becomes of a rule.
enum Fate {
    Kept(RuleSpec),
    Dropped,
    Forces(String),
    Fault(Why),
}

/// Derives the rules of a face. `input` is the handler's schema, with references inlined.
pub(crate) fn rules_of(rules: &[RuleSpec], face: Option<&FaceSpec>, input: &Schema) -> FaceRules {
    let sight = Sight { face, input };
    let mut all = FaceRules::default();
    let mut kept = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        match sight.fate(rule) {
            Fate::Kept(rule) => kept.push(rule),
            Fate::Dropped => {}
            Fate::Forces(field) if all.forced.contains(&field) || sight.is_required(&field) => {}
            Fate::Forces(field) => all.forced.push(field),
            Fate::Fault(why) => all.faults.push(Fault { rule: index, why }),
        }
    }
    for (index, rule) in rules.iter().enumerate() {
        let (RuleSpec::ExactlyOneOf(fields) | RuleSpec::AtMostOneOf(fields)) = rule else {
            continue;
        };
        let given =
            |field: &&String| sight.bound(field).is_some() || sight.is_required(field) || all.forced.contains(field);
        let given: Vec<String> = fields.iter().filter(given).cloned().collect();
        if given.len() > 1 {
            all.faults.retain(|fault| fault.rule != index);
            let why = Why::TwoGiven(given);
            all.faults.push(Fault { rule: index, why });
        }
    }
    all.faults.sort_by_key(|fault| fault.rule);
    // What is required always is not worth a condition.
    kept.retain(|rule| {
        !matches!(rule, RuleSpec::RequiredIf(rule) if sight.is_required(&rule.field) || all.forced.contains(&rule.field))
    });
    all.rules = kept;
    all
}

/// The fields as a caller of the face sees them.
struct Sight<'a> {
    face: Option<&'a FaceSpec>,
    input: &'a Schema,
}

impl Sight<'_> {
    fn fate(&self, rule: &RuleSpec) -> Fate {
        match rule {
            RuleSpec::ExactlyOneOf(fields) => self.choice(fields, RuleSpec::ExactlyOneOf),
            RuleSpec::AtMostOneOf(fields) => self.choice(fields, RuleSpec::AtMostOneOf),
            RuleSpec::RequiredIf(rule) => self.required_if(rule),
        }
    }

    fn choice(&self, fields: &[String], kind: fn(Vec<String>) -> RuleSpec) -> Fate {
        let bound = fields.iter().find(|field| self.bound(field).is_some());
        let sent = |field: &&String| self.bound(field).is_none() && !self.is_hidden(field);
        let mut left: Vec<String> = fields.iter().filter(sent).cloned().collect();
        let exactly = matches!(kind(Vec::new()), RuleSpec::ExactlyOneOf(_));
        match (bound, left.len()) {
            (Some(_), 0) => Fate::Dropped,
            (Some(given), _) => Fate::Fault(Why::InVain {
                given: given.clone(),
                others: left,
            }),
            (None, 0) if exactly => Fate::Fault(Why::NoneLeft),
            (None, 1) if exactly => Fate::Forces(left.remove(0)),
            (None, 0 | 1) => Fate::Dropped,
            (None, _) => Fate::Kept(kind(left)),
        }
    }

    fn required_if(&self, rule: &RequiredIf) -> Fate {
        let when = self.property(&rule.when);
        let fixed = match self.bound(&rule.when) {
            Some(value) => Some(value),
            None if self.is_hidden(&rule.when) => match when.and_then(|when| when.get("default")) {
                Some(default) => Some(default),
                // Never given, so it never decides.
                None => return Fate::Dropped,
            },
            None => None,
        };
        if fixed.is_some_and(|value| !rule.is.iter().any(|one| same(one, value))) || self.bound(&rule.field).is_some() {
            return Fate::Dropped;
        }
        if self.is_hidden(&rule.field) {
            return Fate::Fault(Why::Hidden(rule.field.clone()));
        }
        if fixed.is_some() {
            return Fate::Forces(rule.field.clone());
        }
        let mut rule = rule.clone();
        if let Some(when) = when {
            rule.is = rule.is.iter().map(|value| settled(when, value)).collect();
        }
        Fate::Kept(RuleSpec::RequiredIf(rule))
    }

    fn bound(&self, field: &str) -> Option<&Value> {
        self.face?.bind.get(field)
    }

    fn is_hidden(&self, field: &str) -> bool {
        self.face.is_some_and(|face| face.hide.iter().any(|name| name == field))
    }

    /// Required by the handler or by the face, rules aside.
    fn is_required(&self, field: &str) -> bool {
        let own = self.input.get("required").and_then(Value::as_array);
        own.into_iter().flatten().any(|name| name == field)
            || self
                .face
                .is_some_and(|face| face.require.iter().any(|name| name == field))
    }

    fn property(&self, field: &str) -> Option<&Schema> {
        self.input.get("properties")?.get(field)?.as_object()
    }
}

/// Whether an input keeps a rule. `schema` gives the defaults.
pub(crate) fn holds(rule: &RuleSpec, schema: &Schema, input: &Map<String, Value>) -> bool {
    let input = with_defaults(schema, input);
    let given = |fields: &[String]| fields.iter().filter(|field| input.contains_key(*field)).count();
    match rule {
        RuleSpec::ExactlyOneOf(fields) => given(fields) == 1,
        RuleSpec::AtMostOneOf(fields) => given(fields) <= 1,
        RuleSpec::RequiredIf(rule) => {
            input.contains_key(&rule.field)
                || !input
                    .get(&rule.when)
                    .is_some_and(|value| rule.is.iter().any(|one| same(one, value)))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::{select, subsequence};
    use serde_json::json;

    use super::*;
    use crate::resolve::face_input;

    const FIELDS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
    /// Those that decide: one has a default. They are no member of a choice and never required by a rule.
    const DECIDERS: [&str; 2] = ["e", "f"];

    fn input() -> Schema {
        let schema = json!({"type": "object", "additionalProperties": false, "properties": {
            "a": {"type": "integer"}, "b": {"type": "integer"}, "c": {"type": "integer"}, "d": {"type": "integer"},
            "e": {"type": "integer"}, "f": {"type": "integer", "default": 1}}});
        schema.as_object().unwrap().clone()
    }

    fn names(max: usize, from: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
        subsequence(from, 0..=max).prop_map(|names| names.into_iter().map(str::to_owned).collect())
    }

    fn rule() -> impl Strategy<Value = RuleSpec> {
        let choice =
            || subsequence(&FIELDS[..4], 2..=3).prop_map(|names| names.into_iter().map(str::to_owned).collect());
        prop_oneof![
            choice().prop_map(RuleSpec::ExactlyOneOf),
            choice().prop_map(RuleSpec::AtMostOneOf),
            (select(&FIELDS[..4]), select(&DECIDERS[..]), 0..3).prop_map(|(field, when, is)| {
                RuleSpec::RequiredIf(RequiredIf {
                    field: field.to_owned(),
                    when: when.to_owned(),
                    is: vec![json!(f64::from(is))],
                })
            }),
        ]
    }

    fn values(fields: Vec<String>, numbers: &[i32]) -> Map<String, Value> {
        fields
            .into_iter()
            .zip(numbers)
            .map(|(field, number)| (field, json!(number)))
            .collect()
    }

    fn face() -> impl Strategy<Value = FaceSpec> {
        let roles = prop::collection::vec(0..5, FIELDS.len());
        (roles, prop::collection::vec(0..3, FIELDS.len())).prop_map(|(roles, numbers)| {
            let with = |role: i32| -> Vec<String> {
                let fields = FIELDS.iter().zip(&roles).filter(|(_, found)| **found == role);
                fields.map(|(field, _)| (*field).to_owned()).collect()
            };
            // A field with a default cannot be required.
            let require = with(2).into_iter().filter(|name| name != "f").collect();
            FaceSpec {
                name: "face".into(),
                title: "Face".into(),
                summary: None,
                details: None,
                aliases: Vec::new(),
                bind: values(with(0), &numbers),
                hide: with(1),
                require,
                examples: Vec::new(),
            }
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, max_global_rejects: 20_000, ..ProptestConfig::default() })]

        /// What a face admits is what its handler's rules allow, once bound fields and defaults are in.
        #[test]
        fn a_face_admits_what_its_handler_allows(
            rules in prop::collection::vec(rule(), 1..4),
            face in face(),
            sent in names(6, &FIELDS),
            numbers in prop::collection::vec(0..3, FIELDS.len()),
        ) {
            let schema = input();
            let derived = rules_of(&rules, Some(&face), &schema);
            prop_assume!(derived.faults.is_empty());
            let gone = |name: &String| face.bind.contains_key(name) || face.hide.contains(name);
            let sent = values(sent.into_iter().filter(|name| !gone(name)).collect(), &numbers);
            let own = face_input(&schema, &face, &derived.forced);
            let required = own.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
            let has_required = required.iter().all(|name| sent.contains_key(name.as_str().unwrap()));
            let admitted = has_required && derived.rules.iter().all(|rule| holds(rule, &own, &sent));

            let mut whole = sent.clone();
            whole.extend(face.bind.clone());
            let wanted = face.require.iter().all(|name| sent.contains_key(name));
            let allowed = wanted && rules.iter().all(|rule| holds(rule, &schema, &whole));
            prop_assert_eq!(admitted, allowed, "{:?}", derived);
        }
    }

    /// A rule at fault is one that no call keeps, but for those that could only be broken: checked on every input.
    #[test]
    fn rules_that_no_call_could_keep_are_at_fault() {
        let face = |bind: Value, hide: &[&str], require: &[&str]| FaceSpec {
            name: "face".into(),
            title: "Face".into(),
            summary: None,
            details: None,
            aliases: Vec::new(),
            bind: bind.as_object().unwrap().clone(),
            hide: hide.iter().map(|name| (*name).to_owned()).collect(),
            require: require.iter().map(|name| (*name).to_owned()).collect(),
            examples: Vec::new(),
        };
        let fields = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let exactly = || RuleSpec::ExactlyOneOf(fields(&["a", "b"]));
        let at_most = || RuleSpec::AtMostOneOf(fields(&["a", "b"]));
        let c_if = |when: &str| {
            RuleSpec::RequiredIf(RequiredIf {
                field: "c".into(),
                when: when.into(),
                is: vec![json!(1.0)],
            })
        };
        let two = || Why::TwoGiven(fields(&["a", "b"]));
        let vain = || Why::InVain {
            given: "a".into(),
            others: fields(&["b"]),
        };
        for (rule, face, expected) in [
            (exactly(), face(json!({}), &["a", "b"], &[]), Some(Why::NoneLeft)),
            (at_most(), face(json!({}), &["a", "b"], &[]), None),
            (exactly(), face(json!({"a": 1, "b": 1}), &[], &[]), Some(two())),
            (at_most(), face(json!({"a": 1, "b": 1}), &[], &[]), Some(two())),
            (at_most(), face(json!({}), &[], &["a", "b"]), Some(two())),
            (exactly(), face(json!({"a": 1}), &[], &["b"]), Some(two())),
            (exactly(), face(json!({"a": 1}), &[], &[]), Some(vain())),
            (at_most(), face(json!({"a": 1}), &[], &[]), Some(vain())),
            (at_most(), face(json!({"a": 1}), &["b"], &[]), None),
            (
                c_if("e"),
                face(json!({"e": 1}), &["c"], &[]),
                Some(Why::Hidden("c".into())),
            ),
            (c_if("e"), face(json!({"e": 2}), &["c"], &[]), None),
            (c_if("e"), face(json!({}), &["c"], &[]), Some(Why::Hidden("c".into()))),
            (c_if("e"), face(json!({}), &["c", "e"], &[]), None),
            (
                c_if("f"),
                face(json!({}), &["c", "f"], &[]),
                Some(Why::Hidden("c".into())),
            ),
            (c_if("f"), face(json!({"c": 1}), &["f"], &[]), None),
        ] {
            let found = rules_of(std::slice::from_ref(&rule), Some(&face), &input());
            let why = found.faults.first().map(|fault| fault.why.clone());
            assert_eq!(why, expected, "{rule:?} {face:?}");
        }
    }

    #[test]
    fn a_last_member_and_a_decided_field_are_required_and_words_are_in_the_fields_type() {
        let face = FaceSpec {
            name: "face".into(),
            title: "Face".into(),
            summary: None,
            details: None,
            aliases: Vec::new(),
            bind: json!({"e": 1}).as_object().unwrap().clone(),
            hide: vec!["a".into()],
            require: Vec::new(),
            examples: Vec::new(),
        };
        let required_if = |field: &str, when: &str, is: Value| {
            RuleSpec::RequiredIf(RequiredIf {
                field: field.into(),
                when: when.into(),
                is: vec![is],
            })
        };
        let rules = [
            RuleSpec::ExactlyOneOf(vec!["a".into(), "b".into()]),
            required_if("c", "e", json!(1.0)),
            required_if("d", "f", json!(2.0)),
        ];
        let found = rules_of(&rules, Some(&face), &input());
        assert_eq!(found.forced, ["b", "c"]);
        assert_eq!(found.rules, [required_if("d", "f", json!(2))]);
        assert_eq!(found.faults, []);
    }
}
