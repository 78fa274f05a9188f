// @ts-check
// Real servers for the tests, and tools that npm does not install. Uses running servers, starts missing ones, and stops exactly those that it started.
import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import { parseArgs } from 'node:util'
import { describeAddress } from './servers/address.mjs'
import { aptInstall } from './servers/apt-install.mjs'
import { endAllChildren } from './servers/child.mjs'
import { extraKinds, kinds } from './servers/kind.mjs'
import { adoptProcess, releaseProcess } from './servers/orphans.mjs'
import { planServer } from './servers/plan.mjs'
import { removeTemporaryDirectories } from './servers/temporary-directory.mjs'
import { planTool, tools } from './servers/tools.mjs'

const help = `Real servers for the tests.

  scripts/services run [--only names] -- command …   run a command with them, then stop what was started
  scripts/services run --with names -- command …     with all of them, and with some that are downloaded first
  scripts/services up [--only names]                 keep them until Ctrl-C
  scripts/services check [--only names]              say what would be used; start nothing

Each server is the one its variable names; else the one at its default port on 127.0.0.1; else one
started on a free port from what is installed; else, as root on Debian, installed with apt-get first.
Kafka is a mock cluster, unless KAFKA_HOME names the directory of an unpacked Kafka (with Java 17 or newer).
Tools (${tools.map(({ name }) => name).join(', ')}) are found or installed in the same way.

${kinds.map(({ name, variable, alias }) => `  ${name.padEnd(14)} ${variable}${alias === undefined ? '' : ` or ${alias}`}`).join('\n')}

${extraKinds.map(({ name, variable }) => `  ${name.padEnd(14)} ${variable}, downloaded first: only with --only or --with`).join('\n')}

--only takes names of servers and tools, with commas between; --with takes names of servers.
`

/** @typedef {{ kinds: readonly import('./servers/kind.mjs').Kind[], tools: readonly import('./servers/tools.mjs').Tool[] }} Chosen */

/**
 * @typedef {object} Ready
 * @property {import('./servers/kind.mjs').Kind} kind
 * @property {string} url
 * @property {'environment' | 'already running' | 'started by us'} origin
 * @property {import('./servers/server.mjs').Server} [server] if started by us
 */

/** An error for the user, printed as one or more lines without a stack. */
class Refusal extends Error {
  /**
   * @param {string} message
   * @param {number} exitCode
   */
  constructor(message, exitCode) {
    super(message)
    this.exitCode = exitCode
  }
}

const signals = /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])
let stopping = false

/** @type {Promise<NodeJS.Signals>} resolves with the first signal */
const interrupted = new Promise((resolve) => {
  for (const signal of signals) process.on(signal, resolve)
})

try {
  process.exitCode = await main(process.argv.slice(2))
} catch (error) {
  if (!(error instanceof Refusal)) throw error
  say(error.message)
  process.exitCode = error.exitCode
} finally {
  stopping = true
  await endAllChildren()
  await removeTemporaryDirectories()
}
process.exit()

/**
 * @param {string[]} args
 * @returns {Promise<number>} the exit code
 */
async function main(args) {
  const { name, chosen, command } = readArguments(args)
  switch (name) {
    case 'help':
      process.stdout.write(help)
      return 0
    case 'check':
      return await check(chosen)
    case 'up':
      return await withServers(chosen, stay)
    case 'run':
      return await withServers(chosen, (ready) => runCommand(command, ready))
    default:
      throw new Refusal(`unknown command "${name}"; scripts/services --help lists them`, 2)
  }
}

/** @param {string[]} args */
function readArguments(args) {
  const separator = args.indexOf('--')
  const own = separator < 0 ? args : args.slice(0, separator)
  const command = separator < 0 ? [] : args.slice(separator + 1)
  const { values, positionals } = parse(own)
  const [name, unexpected] = positionals
  if (values.help === true) return { name: 'help', chosen: { kinds, tools }, command }
  if (name === undefined) throw new Refusal('no command given; scripts/services --help lists them', 2)
  if (unexpected !== undefined) throw new Refusal(`unexpected "${unexpected}"; a command to run comes after --`, 2)
  if (name === 'run' && command.length === 0) throw new Refusal('run needs a command, as in run -- npm test', 2)
  if (name !== 'run' && separator >= 0) throw new Refusal(`${name} takes no command`, 2)

  const names = values.only?.split(',')
  const extra = values.with?.split(',') ?? []
  const known = [...kinds, ...extraKinds, ...tools].map((each) => each.name)
  const unknown = [...(names ?? []), ...extra].find((each) => !known.includes(each))
  if (unknown !== undefined) throw new Refusal(`unknown server "${unknown}"; there are ${known.join(', ')}`, 2)
  const isChosen = (/** @type {{ name: string }} */ each) => names === undefined || names.includes(each.name)
  const isNamed = (/** @type {{ name: string }} */ each) => names?.includes(each.name) === true || extra.includes(each.name)
  const chosen = { kinds: [...kinds.filter(isChosen), ...extraKinds.filter(isNamed)], tools: tools.filter(isChosen) }
  return { name, chosen, command }
}

/** @param {string[]} args */
function parse(args) {
  try {
    const options = /** @type {const} */ ({ only: { type: 'string' }, with: { type: 'string' }, help: { type: 'boolean', short: 'h' } })
    return parseArgs({ args, options, allowPositionals: true })
  } catch (error) {
    throw new Refusal(/** @type {Error} */ (error).message, 2)
  }
}

/** @param {Chosen} chosen */
async function check(chosen) {
  const plans = await Promise.all(chosen.kinds.map((kind) => planServer(kind, process.env)))
  for (const plan of plans) {
    const { kind, note } = plan
    process.stdout.write(`${kind.name.padEnd(14)} ${describePlan(plan)}${note === undefined ? '' : ` (${note})`}\n`)
  }
  const toolPlans = chosen.tools.map(planTool)
  for (const plan of toolPlans) process.stdout.write(`${plan.tool.name.padEnd(14)} ${describeTool(plan)}\n`)
  return [...plans, ...toolPlans].some((plan) => plan.source === 'missing') ? 1 : 0
}

/** @param {import('./servers/tools.mjs').ToolPlan} plan */
function describeTool(plan) {
  switch (plan.source) {
    case 'installed':
      return `installed: ${plan.binary}`
    case 'installable':
      return `would be installed: ${plan.tool.debianPackage}, with apt-get`
    case 'missing':
      return `missing: ${plan.reason}`
  }
}

/** @param {import('./servers/plan.mjs').Plan} plan */
function describePlan(plan) {
  switch (plan.source) {
    case 'environment':
      return `environment: ${plan.kind.variable}, ${describeAddress(plan.url, plan.kind.defaultPort)}`
    case 'running':
      return `running: ${plan.url}`
    case 'installed':
      return `installed: would start ${plan.binary}`
    case 'installable':
      return `would be ${plan.kind.prepare === undefined ? 'installed' : 'downloaded'}: ${plan.kind.debianPackage}, with apt-get`
    case 'missing':
      return `missing: ${plan.reason}`
  }
}

/**
 * @param {Chosen} chosen
 * @param {(ready: Ready[]) => Promise<number>} use
 * @returns {Promise<number>}
 */
async function withServers(chosen, use) {
  const plans = await Promise.all(chosen.kinds.map((kind) => planServer(kind, process.env)))
  const toolPlans = chosen.tools.map(planTool)
  for (const { kind, note } of plans) if (note !== undefined) say(`${kind.name}: ${note}`)
  const missing = [
    ...plans.flatMap((plan) => (plan.source === 'missing' ? [`${plan.kind.name}: ${plan.reason}`] : [])),
    ...toolPlans.flatMap((plan) => (plan.source === 'missing' ? [`${plan.tool.name}: ${plan.reason}`] : [])),
  ]
  if (missing.length > 0) throw new Refusal(missing.join('\n'), 1)
  await install(plans, toolPlans)

  const starts = Promise.allSettled(plans.map(provide))
  const outcome = await Promise.race([starts, interrupted])
  if (typeof outcome === 'string') return signalExitCode(outcome)
  const ready = outcome.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
  try {
    const failures = outcome.flatMap((each) => (each.status === 'rejected' ? [each.reason.message] : []))
    if (failures.length > 0) throw new Refusal(failures.join('\n'), 1)
    return await use(ready)
  } finally {
    stopping = true
    await Promise.all(ready.map(({ server }) => server?.stop()))
  }
}

/**
 * @param {import('./servers/plan.mjs').Plan[]} plans
 * @param {import('./servers/tools.mjs').ToolPlan[]} toolPlans
 */
async function install(plans, toolPlans) {
  const installable = plans.filter((plan) => plan.source === 'installable').map((plan) => plan.kind)
  for (const kind of installable.filter((each) => each.prepare !== undefined)) await download(kind)
  const wanted = installable.filter((kind) => kind.prepare === undefined)
  const wantedTools = toolPlans.filter((plan) => plan.source === 'installable').map((plan) => plan.tool)
  const packages = [...new Set([...wanted, ...wantedTools].map((each) => each.debianPackage))]
  if (packages.length === 0) return
  say(`installing ${packages.join(', ')} with apt-get ...`)
  const elapsed = stopwatch()
  await aptInstall(packages).catch((error) => {
    const variables = wanted.length === 0 ? '' : ` (or set ${wanted.map((kind) => kind.variable).join(', ')})`
    throw new Refusal(`apt-get could not install ${packages.join(', ')}${variables}: ${error.message}`, 1)
  })
  say(`installed ${packages.join(', ')} (${elapsed()})`)
}

/** @param {import('./servers/kind.mjs').Kind} kind */
async function download(kind) {
  say(`downloading ${kind.debianPackage} ...`)
  const elapsed = stopwatch()
  await kind.prepare?.().catch((error) => {
    throw new Refusal(`${kind.debianPackage} could not be downloaded (set ${kind.variable} to use another one): ${error.message}`, 1)
  })
  say(`downloaded ${kind.debianPackage} (${elapsed()})`)
}

/**
 * @param {import('./servers/plan.mjs').Plan} plan
 * @returns {Promise<Ready>}
 */
async function provide(plan) {
  const { kind } = plan
  const elapsed = stopwatch()
  if (plan.source === 'environment' || plan.source === 'running') {
    const origin = plan.source === 'running' ? 'already running' : 'environment'
    say(`${kind.name}: ${describeAddress(plan.url, kind.defaultPort)}, ${origin}`)
    return { kind, url: plan.url, origin }
  }
  const server = await kind.start().catch((error) => {
    throw new Error(`${kind.name}: ${error.message}`, { cause: error })
  })
  say(`${kind.name}: ${describeAddress(server.url, kind.defaultPort)}, started by us (${elapsed()})`)
  void server.exited.then((how) => {
    if (!stopping) say(`${kind.name}: it ended unexpectedly with ${how}`)
  })
  return { kind, url: server.url, origin: 'started by us', server }
}

/** @param {Ready[]} ready */
async function stay(ready) {
  for (const { kind, url, origin } of ready) {
    const shown = origin === 'environment' ? describeAddress(url, kind.defaultPort) : url
    process.stdout.write(`${kind.name.padEnd(14)} ${shown}  ${origin}\n`)
  }
  // A URL from the environment may contain a password, and is already known to the user who set it.
  const exports = ready.filter(({ origin }) => origin !== 'environment')
  for (const { kind, url } of exports) process.stdout.write(`export ${kind.variable}=${url}\n`)
  say('Ctrl-C stops what was started')
  const alive = setInterval(() => {}, 2 ** 30)
  await interrupted
  clearInterval(alive)
  return 0
}

/**
 * @param {string[]} command
 * @param {Ready[]} ready
 * @returns {Promise<number>}
 */
async function runCommand([file = '', ...args], ready) {
  const urls = Object.fromEntries(ready.map(({ kind, url }) => [kind.variable, url]))
  const child = spawn(file, args, { stdio: 'inherit', env: { ...process.env, ...urls, ACKORD_SERVICES: '1' } })
  if (child.pid !== undefined) adoptProcess(child.pid, 'SIGTERM')
  // The terminal sends Ctrl-C to the command as well; other signals reach only this process.
  const forwarded = signals.filter((signal) => signal !== 'SIGINT' || !process.stdin.isTTY)
  for (const signal of forwarded) process.on(signal, () => child.kill(signal))
  return await new Promise((resolve, reject) => {
    child.on('error', (error) => reject(new Refusal(`cannot run ${file}: ${error.message}`, 127)))
    child.on('exit', (code, signal) => {
      if (child.pid !== undefined) releaseProcess(child.pid)
      resolve(signal === null ? (code ?? 1) : signalExitCode(signal))
    })
  })
}

/**
 * The exit code for a signal, as in shells.
 *
 * @param {NodeJS.Signals} signal
 */
function signalExitCode(signal) {
  return 128 + constants.signals[signal]
}

function stopwatch() {
  const start = performance.now()
  return () => `${((performance.now() - start) / 1000).toFixed(1)} s`
}

/** @param {string} line */
function say(line) {
  process.stderr.write(`${line}\n`)
}
