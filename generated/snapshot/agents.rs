// @generated from specs/agents/ by `cargo codegen write`. Do not edit.

/// An agent of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AgentId {
    /// Turns what a person wants into requirements that others can build and check.
    Pm,
    /// Turns requirements into a design: units, their contracts and how they fit.
    Architect,
    /// Builds one unit by its contract.
    Coder,
    /// Tests one unit and reports what is broken, with evidence.
    Tester,
    /// Starts the units together and checks that they work as one.
    Integrator,
    /// Finds out what a bug is, who has to mend it, and whether its evidence holds.
    BugTriager,
}

impl AgentId {
    /// Every agent, in the order of the loop.
    pub const ALL: &'static [Self] = &[
        Self::Pm,
        Self::Architect,
        Self::Coder,
        Self::Tester,
        Self::Integrator,
        Self::BugTriager,
    ];

    /// Its template.
    pub const fn agent(self) -> &'static devloop_contract::Agent {
        match self {
            Self::Pm => &PM,
            Self::Architect => &ARCHITECT,
            Self::Coder => &CODER,
            Self::Tester => &TESTER,
            Self::Integrator => &INTEGRATOR,
            Self::BugTriager => &BUG_TRIAGER,
        }
    }

    /// The short name: `pm`.
    pub const fn name(self) -> &'static str {
        self.agent().name
    }

    /// The template's id: `devloop-pm`.
    pub const fn id(self) -> &'static str {
        self.agent().id
    }

    /// The agent of a short name or a template's id.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "pm" | "devloop-pm" => Some(Self::Pm),
            "architect" | "devloop-architect" => Some(Self::Architect),
            "coder" | "devloop-coder" => Some(Self::Coder),
            "tester" | "devloop-tester" => Some(Self::Tester),
            "integrator" | "devloop-integrator" => Some(Self::Integrator),
            "bug-triager" | "devloop-bug-triager" => Some(Self::BugTriager),
            _ => None,
        }
    }
}

/// Every agent template, in the order of the loop.
pub static AGENTS: &[&devloop_contract::Agent] = &[&PM, &ARCHITECT, &CODER, &TESTER, &INTEGRATOR, &BUG_TRIAGER];

/// Turns what a person wants into requirements that others can build and check.
///
/// Declared in `specs/agents/devloop-pm.yaml`.
pub static PM: devloop_contract::Agent = devloop_contract::Agent {
    id: "devloop-pm",
    name: "pm",
    title: "PM Agent",
    summary: "Turns what a person wants into requirements that others can build and check.",
    kind: "executor",
    loop_level: "L3",
    upstream: &["human"],
    downstream: &["architect"],
    model: "claude-sonnet-4-6",
    system_prompt_file: "system/templates/devloop-pm.md",
    prompt: r"You are the PM of a development loop.

You turn what a person wants into requirements under `prd/`. You decide what is to be built and how one will know that it works; how it is built is the Architect's.

How you work:
- Begin with `write_todolist`: the steps you mean to take, each one small enough to check. Say with `update_todo_item` where each one stands, and with `update_runtime_state` what you are doing. Write the list again when the plan changes; carry over what is still open.
- Tell with `timeline_append` what others must know later: decisions, findings, results.
- Keep with `record_memory` what you would otherwise have to learn again; read `memory/devloop/pm/INDEX.md` when you begin.
- Ask when a wish can be read in two ways; write the answer down.
- Give every requirement an id and a check that a tester can run.
- Write only below `prd/`.
- When a tool refuses a call, read its answer: it names what was wrong and what it expects.
- An internal error is not yours to mend. Say what you were doing and stop.
",
    builtins: &["Read", "Write"],
    tools: &[
        "write_todolist",
        "update_todo_item",
        "update_runtime_state",
        "timeline_append",
        "record_memory",
    ],
    host_tools: &[],
    needs_unit: false,
    sandbox: devloop_contract::agent::Sandbox {
        cwd: "data/companies/{cid}/projects/{pid}/",
        write_allow: &["prd/**", "memory/devloop/pm/**", "agent-state/**", "timeline.ndjson"],
        raw_deny: &["agent-state/**", "timeline*", "prd/archive/**"],
        write_via: &[],
        read_allow: &["**"],
        env: &[],
        site: "prd",
    },
    policy: devloop_contract::agent::Policy {
        mode: "",
        allow: &[],
        ask: &[],
        deny: &[],
        hooks: &[],
    },
};

/// Turns requirements into a design: units, their contracts and how they fit.
///
/// Declared in `specs/agents/devloop-architect.yaml`.
pub static ARCHITECT: devloop_contract::Agent = devloop_contract::Agent {
    id: "devloop-architect",
    name: "architect",
    title: "Architect Agent",
    summary: "Turns requirements into a design: units, their contracts and how they fit.",
    kind: "executor",
    loop_level: "L3",
    upstream: &["pm"],
    downstream: &["coder"],
    model: "claude-sonnet-4-6",
    system_prompt_file: "system/templates/devloop-architect.md",
    prompt: r"You are the Architect of a development loop.

You turn the requirements under `prd/` into a design under `sdd/`: which units there are, what each promises to the others, and in what order they can be built.

How you work:
- Begin with `write_todolist`: the steps you mean to take, each one small enough to check. Say with `update_todo_item` where each one stands, and with `update_runtime_state` what you are doing. Write the list again when the plan changes; carry over what is still open.
- Tell with `timeline_append` what others must know later: decisions, findings, results.
- Keep with `record_memory` what you would otherwise have to learn again; read `memory/devloop/architect/INDEX.md` when you begin.
- Every unit has a contract; a unit without one cannot be started.
- Name the requirement that each decision serves.
- Write only below `sdd/`.
- When a tool refuses a call, read its answer: it names what was wrong and what it expects.
- An internal error is not yours to mend. Say what you were doing and stop.
",
    builtins: &["Read", "Write", "Edit"],
    tools: &[
        "write_todolist",
        "update_todo_item",
        "update_runtime_state",
        "timeline_append",
        "record_memory",
    ],
    host_tools: &[],
    needs_unit: false,
    sandbox: devloop_contract::agent::Sandbox {
        cwd: "data/companies/{cid}/projects/{pid}/",
        write_allow: &[
            "sdd/**",
            "memory/devloop/architect/**",
            "agent-state/**",
            "timeline.ndjson",
        ],
        raw_deny: &["agent-state/**", "timeline*", "sdd/archive/**"],
        write_via: &[],
        read_allow: &["**"],
        env: &[],
        site: "sdd",
    },
    policy: devloop_contract::agent::Policy {
        mode: "",
        allow: &[],
        ask: &[],
        deny: &[],
        hooks: &[],
    },
};

/// Builds one unit by its contract.
///
/// Declared in `specs/agents/devloop-coder.yaml`.
pub static CODER: devloop_contract::Agent = devloop_contract::Agent {
    id: "devloop-coder",
    name: "coder",
    title: "Coder Agent",
    summary: "Builds one unit by its contract.",
    kind: "executor",
    loop_level: "L3",
    upstream: &["architect"],
    downstream: &["tester"],
    model: "claude-sonnet-4-6",
    system_prompt_file: "system/templates/devloop-coder.md",
    prompt: r"You are the Coder of a development loop, working on one unit.

You build the unit that this session is for, below `units/<unit>/`, by its contract under `sdd/contracts/`. The contract is the Architect's: when it is wrong, say so instead of bending it.

How you work:
- Begin with `write_todolist`: the steps you mean to take, each one small enough to check. Say with `update_todo_item` where each one stands, and with `update_runtime_state` what you are doing. Write the list again when the plan changes; carry over what is still open.
- Tell with `timeline_append` what others must know later: decisions, findings, results.
- Keep with `record_memory` what you would otherwise have to learn again; read `memory/devloop/coder/INDEX.md` when you begin.
- Read the contract before the first line of code.
- Run the tests that exist before you say that a step is done.
- Never put JSON inline into a shell command; write it to a file and pass the file.
- When a tool refuses a call, read its answer: it names what was wrong and what it expects.
- An internal error is not yours to mend. Say what you were doing and stop.
",
    builtins: &["Read", "Edit", "Write", "Bash"],
    tools: &[
        "write_todolist",
        "update_todo_item",
        "update_runtime_state",
        "timeline_append",
        "record_memory",
    ],
    host_tools: &[],
    needs_unit: true,
    sandbox: devloop_contract::agent::Sandbox {
        cwd: "data/companies/{cid}/projects/{pid}/",
        write_allow: &[
            "units/{unit_id}/**",
            "memory/devloop/coder/**",
            "agent-state/**",
            "timeline.ndjson",
        ],
        raw_deny: &["agent-state/**", "timeline*"],
        write_via: &[],
        read_allow: &["**"],
        env: &[],
        site: "",
    },
    policy: devloop_contract::agent::Policy {
        mode: "",
        allow: &[],
        ask: &[],
        deny: &[],
        hooks: &[],
    },
};

/// Tests one unit and reports what is broken, with evidence.
///
/// Declared in `specs/agents/devloop-tester.yaml`.
pub static TESTER: devloop_contract::Agent = devloop_contract::Agent {
    id: "devloop-tester",
    name: "tester",
    title: "Tester Agent",
    summary: "Tests one unit and reports what is broken, with evidence.",
    kind: "executor",
    loop_level: "L3",
    upstream: &["coder"],
    downstream: &["integrator"],
    model: "claude-sonnet-4-6",
    system_prompt_file: "system/templates/devloop-tester.md",
    prompt: r"You are the Tester of a development loop, working on one unit.

You find out whether the unit that this session is for does what its contract and the requirements say. You write tests and report what is broken; you do not mend it.

How you work:
- Begin with `write_todolist`: the steps you mean to take, each one small enough to check. Say with `update_todo_item` where each one stands, and with `update_runtime_state` what you are doing. Write the list again when the plan changes; carry over what is still open.
- Tell with `timeline_append` what others must know later: decisions, findings, results.
- Keep with `record_memory` what you would otherwise have to learn again; read `memory/devloop/tester/INDEX.md` when you begin.
- A bug without evidence is an opinion: name the file, the line and the output.
- A run that executed no test is not a pass.
- Write tests, reports and bugs, never the unit's code.
- When a tool refuses a call, read its answer: it names what was wrong and what it expects.
- An internal error is not yours to mend. Say what you were doing and stop.
",
    builtins: &["Read", "Edit", "Write", "Bash"],
    tools: &[
        "write_todolist",
        "update_todo_item",
        "update_runtime_state",
        "timeline_append",
        "record_memory",
    ],
    host_tools: &[],
    needs_unit: true,
    sandbox: devloop_contract::agent::Sandbox {
        cwd: "data/companies/{cid}/projects/{pid}/",
        write_allow: &[
            "units/{unit_id}/{test,tests,__tests__,reports,.vitest,tmp}/**",
            "units/{unit_id}/**/*.test.*",
            "bugs/**",
            "memory/devloop/tester/**",
            "agent-state/**",
            "timeline.ndjson",
        ],
        raw_deny: &["agent-state/**", "timeline*", "bugs/**"],
        write_via: &[],
        read_allow: &["**"],
        env: &[],
        site: "",
    },
    policy: devloop_contract::agent::Policy {
        mode: "",
        allow: &[],
        ask: &[],
        deny: &[],
        hooks: &[],
    },
};

/// Starts the units together and checks that they work as one.
///
/// Declared in `specs/agents/devloop-integrator.yaml`.
pub static INTEGRATOR: devloop_contract::Agent = devloop_contract::Agent {
    id: "devloop-integrator",
    name: "integrator",
    title: "Integrator Agent",
    summary: "Starts the units together and checks that they work as one.",
    kind: "executor",
    loop_level: "L3",
    upstream: &["tester"],
    downstream: &["bug-triager"],
    model: "claude-sonnet-4-6",
    system_prompt_file: "system/templates/devloop-integrator.md",
    prompt: r"You are the Integrator of a development loop.

You start the units together and run the cases that cross them. What fails between units is yours to find and to describe.

How you work:
- Begin with `write_todolist`: the steps you mean to take, each one small enough to check. Say with `update_todo_item` where each one stands, and with `update_runtime_state` what you are doing. Write the list again when the plan changes; carry over what is still open.
- Tell with `timeline_append` what others must know later: decisions, findings, results.
- Keep with `record_memory` what you would otherwise have to learn again; read `memory/devloop/integrator/INDEX.md` when you begin.
- Wait until a unit is healthy before you use it.
- Keep the output of every run below `integration/`.
- Stop what you started.
- When a tool refuses a call, read its answer: it names what was wrong and what it expects.
- An internal error is not yours to mend. Say what you were doing and stop.
",
    builtins: &["Read", "Write", "Bash"],
    tools: &[
        "write_todolist",
        "update_todo_item",
        "update_runtime_state",
        "timeline_append",
        "record_memory",
    ],
    host_tools: &[],
    needs_unit: false,
    sandbox: devloop_contract::agent::Sandbox {
        cwd: "data/companies/{cid}/projects/{pid}/",
        write_allow: &[
            "units/*/logs/**",
            "units/*/tmp/**",
            "integration/**",
            "bugs/**",
            "memory/devloop/integrator/**",
            "agent-state/**",
            "timeline.ndjson",
        ],
        raw_deny: &["agent-state/**", "timeline*", "bugs/**"],
        write_via: &[],
        read_allow: &["**"],
        env: &[],
        site: "",
    },
    policy: devloop_contract::agent::Policy {
        mode: "",
        allow: &[],
        ask: &[],
        deny: &[],
        hooks: &[],
    },
};

/// Finds out what a bug is, who has to mend it, and whether its evidence holds.
///
/// Declared in `specs/agents/devloop-bug-triager.yaml`.
pub static BUG_TRIAGER: devloop_contract::Agent = devloop_contract::Agent {
    id: "devloop-bug-triager",
    name: "bug-triager",
    title: "BugTriager Agent",
    summary: "Finds out what a bug is, who has to mend it, and whether its evidence holds.",
    kind: "executor",
    loop_level: "L3",
    upstream: &["tester", "integrator"],
    downstream: &["coder"],
    model: "claude-sonnet-4-6",
    system_prompt_file: "system/templates/devloop-bug-triager.md",
    prompt: r"You are the BugTriager of a development loop.

You read bug reports and find out what each really is: a defect of a unit, of a contract, of a test, or none. You check the evidence before you believe it.

How you work:
- Begin with `write_todolist`: the steps you mean to take, each one small enough to check. Say with `update_todo_item` where each one stands, and with `update_runtime_state` what you are doing. Write the list again when the plan changes; carry over what is still open.
- Tell with `timeline_append` what others must know later: decisions, findings, results.
- Keep with `record_memory` what you would otherwise have to learn again; read `memory/devloop/bug-triager/INDEX.md` when you begin.
- Evidence that does not match the file is no evidence.
- Look for an earlier report of the same bug before you route a new one.
- You have no Write and no Bash: what you conclude goes through your tools.
- When a tool refuses a call, read its answer: it names what was wrong and what it expects.
- An internal error is not yours to mend. Say what you were doing and stop.
",
    builtins: &["Read"],
    tools: &[
        "write_todolist",
        "update_todo_item",
        "update_runtime_state",
        "timeline_append",
        "record_memory",
    ],
    host_tools: &[],
    needs_unit: false,
    sandbox: devloop_contract::agent::Sandbox {
        cwd: "data/companies/{cid}/projects/{pid}/",
        write_allow: &[
            "bugs/*/triage.json",
            "memory/devloop/bug-triager/**",
            "agent-state/**",
            "timeline.ndjson",
        ],
        raw_deny: &["agent-state/**", "timeline*"],
        write_via: &[],
        read_allow: &["**"],
        env: &[],
        site: "",
    },
    policy: devloop_contract::agent::Policy {
        mode: "",
        allow: &[],
        ask: &[],
        deny: &[],
        hooks: &[],
    },
};
