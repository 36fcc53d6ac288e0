// Loaded by an opencode on a terminal, for one launch: its asks go to our hook while its own dialog shows them, and the
// first answer counts; the hook is told of the session that a turn begins in. What fails is left to the dialog.
import { spawn } from "node:child_process"

const SHIM = SHIM_OF_THIS_LAUNCH
const CONFIG = "OPENCODE_CONFIG_CONTENT"

export const Supervisor = async ({ client, directory }) => {
  if (process.env.OPENCODE_SERVER_PASSWORD) return {} // a driver's server, started from inside: the driver asks itself

  const asks = new Map() // open ask → its session, and the hook that waits for its answer
  const roots = new Map() // session → whether a person can be in it: a subagent's has a parent
  const busy = new Set()
  let told = ""
  let telling = Promise.resolve()

  const call = (event) => {
    const hook = spawn(SHIM[0], [...SHIM.slice(1), "opencode"], { stdio: ["pipe", "pipe", "ignore"] })
    const said = new Promise((resolve) => {
      let out = ""
      hook.stdout.on("data", (data) => (out += data))
      hook.on("error", () => resolve(""))
      hook.on("close", () => resolve(out))
    })
    hook.stdin.on("error", () => {})
    hook.stdin.end(JSON.stringify(event))
    return { hook, said }
  }

  const asked = async (ask) => {
    if (asks.has(ask.id)) return
    const { hook, said } = call({ hook_event_name: "PermissionAsked", cwd: directory, ask })
    asks.set(ask.id, { hook, session: ask.sessionID })
    const out = await said
    if (!asks.delete(ask.id) || !out.trim()) return // it was answered in the dialog, or is left to it
    const { behavior, message } = JSON.parse(out).hookSpecificOutput.decision
    await client._client.post({
      url: "/permission/{requestID}/reply",
      path: { requestID: ask.id },
      body: behavior === "allow" ? { reply: "once" } : { reply: "reject", message },
      headers: { "Content-Type": "application/json" },
    })
  }

  const withdraw = (id) => {
    const open = asks.get(id)
    asks.delete(id)
    open?.hook.kill("SIGTERM")
  }

  const began = async (session) => {
    if (busy.has(session)) return
    busy.add(session)
    if (!roots.has(session)) {
      const { data } = await client.session.get({ path: { id: session } })
      if (data) roots.set(session, !data.parentID)
    }
    if (!roots.get(session) || session === told) return
    told = session
    const event = { hook_event_name: "SessionStart", session_id: session, source: "startup" }
    telling = telling.then(() => call(event).said) // one after the other: the last one counts
  }

  const ended = (session) => {
    busy.delete(session)
    for (const [id, ask] of asks) if (ask.session === session) withdraw(id)
  }

  const hear = async (kind, about) => {
    if (kind === "permission.asked") return asked(about)
    if (kind === "permission.replied") return withdraw(about.requestID)
    if (kind === "session.created") return roots.set(about.info.id, !about.info.parentID)
    if (kind === "session.idle") return ended(about.sessionID)
    if (kind === "session.status" && about.status.type !== "idle") return began(about.sessionID)
  }

  return {
    event: async ({ event }) => {
      hear(event.type, event.properties).catch(() => {}) // not awaited: an open ask must not hold up other events
    },
    "shell.env": async (_input, output) => {
      // an opencode that is run by a tool is not this agent
      const config = JSON.parse(process.env[CONFIG] || "{}")
      config.plugin = (config.plugin ?? []).filter((url) => url !== import.meta.url)
      output.env[CONFIG] = JSON.stringify(config)
    },
  }
}
