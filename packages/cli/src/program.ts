import type { Writable } from 'node:stream'
import { Command, CommanderError } from 'commander'
import { auditCommand } from './commands/audit.ts'
import { benchCommand } from './commands/bench.ts'
import { cleanupCommand } from './commands/cleanup.ts'
import { dashboardCommand } from './commands/dashboard.ts'
import { deadLettersCommand } from './commands/dead-letters.ts'
import { demoCommand } from './commands/demo.ts'
import { doctorCommand } from './commands/doctor.ts'
import { inboxCommand } from './commands/inbox.ts'
import { migrateCommand } from './commands/migrate.ts'
import { pauseCommand, resumeCommand } from './commands/pause.ts'
import { processesCommand } from './commands/processes.ts'
import { cancelCommand, discardCommand } from './commands/records/discard.ts'
import { failuresCommand } from './commands/records/failures.ts'
import { listCommand } from './commands/records/list.ts'
import { parkCommand } from './commands/records/park.ts'
import { rearmCommand } from './commands/records/rearm.ts'
import { replayCommand } from './commands/records/replay.ts'
import { showCommand } from './commands/records/show.ts'
import { relayCommand } from './commands/relay.ts'
import { relaysCommand } from './commands/relays.ts'
import { statusCommand } from './commands/status.ts'
import { CommandError, type ExitCode, exitCode } from './output/errors.ts'
import { explainFailure } from './output/explain-failure.ts'
import { Output, type OutputStream } from './output/output.ts'
import type { Secrets } from './output/secrets.ts'
import { type Execute, executor } from './session.ts'
import { durationForms } from './settings/duration.ts'
import { urlOptionHint } from './settings/option-errors.ts'
import type { Suspension } from './suspension.ts'
import { version } from './version.ts'

export interface ProgramOptions {
  readonly execute: Execute
  /** Where help is printed. */
  readonly write: (text: string) => void
}

export function buildProgram({ execute, write }: ProgramOptions): Command {
  const program = new Command('ackord')
    .description('Runs the Ackord demo, creates its tables, runs relays and manages parked records, inboxes and dead letters.')
    .version(version, '--version')
    .addHelpText(
      'after',
      '\nOptions can also be set in ackord.config.ts and by environment variables, which are shown in brackets in the help of each command.',
    )
    .addCommand(demoCommand(execute))
    .addCommand(migrateCommand(execute))
    .addCommand(relayCommand(execute))
    .addCommand(dashboardCommand(execute))
    .addCommand(statusCommand(execute))
    .addCommand(listCommand(execute))
    .addCommand(showCommand(execute))
    .addCommand(parkCommand(execute))
    .addCommand(rearmCommand(execute))
    .addCommand(discardCommand(execute))
    .addCommand(cancelCommand(execute))
    .addCommand(replayCommand(execute))
    .addCommand(failuresCommand(execute))
    .addCommand(pauseCommand(execute))
    .addCommand(resumeCommand(execute))
    .addCommand(relaysCommand(execute))
    .addCommand(auditCommand(execute))
    .addCommand(inboxCommand(execute))
    .addCommand(processesCommand(execute))
    .addCommand(deadLettersCommand(execute))
    .addCommand(cleanupCommand(execute))
    .addCommand(doctorCommand(execute))
    .addCommand(benchCommand(execute))
  for (const command of withAll(program)) {
    if (command.options.some(({ flags }) => flags.includes('<duration>')))
      command.addHelpText('after', `\nDurations are written as ${durationForms}.`)
    const lines = examples[pathOf(command)] ?? []
    if (lines.length > 0) command.addHelpText('after', `\nExamples:\n${lines.map((line) => `  $ ${line}`).join('\n')}`)
    // Failures are thrown, and reported by the caller.
    command
      .exitOverride()
      .showSuggestionAfterError(true)
      .configureOutput({ writeOut: write, writeErr: () => {} })
  }
  return program
}

/** For the help of each command, by its path. */
const examples: Readonly<Record<string, readonly string[]>> = {
  '': ['ackord demo', 'ackord relay --from $POSTGRES_URL --to $RABBITMQ_URL', 'ackord status --store $POSTGRES_URL'],
  demo: ['ackord demo', 'ackord demo --orders 100 --store $POSTGRES_URL'],
  migrate: ['ackord migrate up --store $POSTGRES_URL', 'ackord migrate print --store mysql: > ackord.sql'],
  'migrate up': ['ackord migrate up --store $POSTGRES_URL --schema messaging'],
  'migrate print': ['ackord migrate print --store postgres: > migrations/ackord.sql'],
  'migrate validate': ['ackord migrate validate --store $POSTGRES_URL'],
  relay: [
    'ackord relay --from $POSTGRES_URL --to $RABBITMQ_URL',
    'ackord relay --from $REDIS_URL --outbox lua --to $NATS_URL',
    'ackord relay --from $POSTGRES_URL --to $RABBITMQ_URL --port 9090 --otlp http://localhost:4318',
  ],
  dashboard: [
    'ackord dashboard --store $POSTGRES_URL',
    'ackord dashboard --store orders=$POSTGRES_URL --store carts=$REDIS_URL --port 8088',
  ],
  status: [
    'ackord status --store $POSTGRES_URL',
    'ackord status --store $POSTGRES_URL --watch 5s',
    'ackord status --store $POSTGRES_URL --json | jq .totals',
  ],
  list: [
    'ackord list --store $POSTGRES_URL --state parked',
    'ackord list --store $POSTGRES_URL --destination order-events --limit 10',
    'ackord list --store $POSTGRES_URL --message-id 8b0e2d5c-order-7',
    'ackord list --store $POSTGRES_URL --state waiting --watch',
  ],
  show: ['ackord show 42 --store $POSTGRES_URL --data', 'ackord show --message-id 8b0e2d5c-order-7 --store $POSTGRES_URL'],
  park: [
    "ackord park 42 43 --store $POSTGRES_URL --reason 'wrong price'",
    "ackord park --message-id 8b0e2d5c-order-7 --store $POSTGRES_URL --reason 'wrong price'",
  ],
  rearm: [
    'ackord rearm 42 --store $POSTGRES_URL',
    'ackord rearm --message-id 8b0e2d5c-order-7 --store $POSTGRES_URL',
    'ackord rearm --destination order-events --store $POSTGRES_URL',
  ],
  discard: [
    "ackord discard 42 --store $POSTGRES_URL --reason 'test data'",
    "ackord discard --message-id 8b0e2d5c-order-7 --store $POSTGRES_URL --reason 'test data' --yes",
  ],
  cancel: [
    "ackord cancel 42 43 --store $POSTGRES_URL --reason 'order was paid'",
    "ackord cancel --message-id 8b0e2d5c-order-7 --store $POSTGRES_URL --reason 'order was paid' --yes",
    'ackord cancel --destination reminders --store $POSTGRES_URL --dry-run',
  ],
  replay: [
    'ackord replay --store $POSTGRES_URL --broker $RABBITMQ_URL --from 2026-11-01T00:00Z --destination order-events --dry-run',
    "ackord replay --store $POSTGRES_URL --broker $RABBITMQ_URL --type order.placed --to-destination search --reason 'new search index'",
    'ackord replay --store $POSTGRES_URL --broker $RABBITMQ_URL --from 2h --new-ids repair-1 --rate 500/s',
  ],
  failures: ['ackord failures --store $POSTGRES_URL', 'ackord failures --store $POSTGRES_URL --destination order-events --group-by type'],
  pause: ["ackord pause order-events --store $POSTGRES_URL --for 30m --reason 'broker maintenance'"],
  resume: ['ackord resume order-events --store $POSTGRES_URL'],
  relays: ['ackord relays --store $POSTGRES_URL', 'ackord relays --store $POSTGRES_URL --watch'],
  audit: ['ackord audit --store $POSTGRES_URL --limit 20'],
  inbox: ['ackord inbox show 7d9f --store $POSTGRES_URL'],
  'inbox show': [
    'ackord inbox show 7d9f --store $POSTGRES_URL',
    'ackord inbox show 7d9f --store $REDIS_URL --consumer orders --source /shop',
  ],
  'inbox forget': ['ackord inbox forget 7d9f --store $POSTGRES_URL --consumer orders'],
  processes: ['ackord processes list --store $POSTGRES_URL --process order'],
  'processes list': ['ackord processes list --store $POSTGRES_URL --process order --idle-for 1d'],
  'processes show': ['ackord processes show order o-4711 --store $POSTGRES_URL --data'],
  'processes end': ['ackord processes end order o-4711 --store $POSTGRES_URL'],
  'dead-letters': ['ackord dead-letters list --broker $RABBITMQ_URL --from orders.dead'],
  'dead-letters list': ['ackord dead-letters list --broker $RABBITMQ_URL --from orders.dead --since 1h'],
  'dead-letters show': ['ackord dead-letters show 7d9f --broker $RABBITMQ_URL --from orders.dead --data'],
  'dead-letters replay': [
    'ackord dead-letters replay --broker $RABBITMQ_URL --from orders.dead --type order.placed --dry-run',
    'ackord dead-letters replay --broker $RABBITMQ_URL --from orders.dead --all --rate 50/s',
    'ackord dead-letters replay 7d9f --broker $RABBITMQ_URL --from orders.dead --to orders-v2',
  ],
  'dead-letters discard': ["ackord dead-letters discard 7d9f --broker $RABBITMQ_URL --from orders.dead --reason 'test data'"],
  cleanup: ['ackord cleanup --store $POSTGRES_URL --inbox-window 7d'],
  doctor: ['ackord doctor --store $POSTGRES_URL --broker $RABBITMQ_URL', 'ackord doctor --store $REDIS_URL --strict'],
  bench: ['ackord bench --store $POSTGRES_URL'],
}

/** `migrate up` for the subcommand `up`; empty for the program itself. */
function pathOf(command: Command): string {
  return command.parent === null ? '' : `${pathOf(command.parent)} ${command.name()}`.trim()
}

function withAll(command: Command): readonly Command[] {
  return [command, ...command.commands.flatMap(withAll)]
}

export interface RunOptions {
  /** The arguments without node and the script. */
  readonly args: readonly string[]
  readonly environment: NodeJS.ProcessEnv
  readonly stdout: OutputStream
  readonly stderr: Writable
  /** Learns the secrets that must not be printed. */
  readonly secrets: Secrets
  readonly signal: AbortSignal
  /** Called when the command starts work that must be stopped: only `signal` may end it from now on. */
  readonly onStopsItself: () => void
  /** See `Session.suspension`. */
  readonly suspension?: Suspension | undefined
}

/** The whole command, except for the process around it. Never rejects. */
export async function run(options: RunOptions): Promise<ExitCode> {
  const { args, environment, stdout, stderr, secrets, signal, onStopsItself, suspension } = options
  // Invalid arguments are repeated to the user, even if one is a URL at the wrong position.
  for (const arg of args) if (arg.includes('://')) secrets.addUrl(arg)
  const [terminal, cursor] = [stdout.isTTY === true, environment['TERM'] !== 'dumb']
  const output = new Output({ stdout, stderr, secrets, json: args.includes('--json'), terminal, cursor })
  let code: ExitCode = exitCode.ok
  const onExit = (given: ExitCode) => {
    code = given
  }
  const execute = executor({ session: { output, secrets, signal, suspension }, environment, onExit, onStopsItself })
  try {
    await parse(buildProgram({ execute, write: (text) => stdout.write(text) }), args)
    return code
  } catch (error) {
    if (error instanceof CommanderError) return exitCode.ok
    const failure = explainFailure(error)
    output.failure(failure)
    return failure.exitCode
  }
}

/** Rejects with commander's own error only after help and the version, which are no failures. */
async function parse(program: Command, args: readonly string[]): Promise<void> {
  try {
    // Without a command, users want to know what there is.
    await program.parseAsync(args.length === 0 ? ['--help'] : args, { from: 'user' })
  } catch (error) {
    throw error instanceof CommanderError && error.exitCode !== 0 ? argumentError(error, calledCommand(program, args)) : error
  }
}

/** Commander's errors in our format: one line, and a hint. */
function argumentError(error: CommanderError, command: Command): CommandError {
  const [text = '', ...rest] = error.message.replace(/^error: /, '').split('\n')
  const help = `ackord ${pathOf(command)} --help`.replace('  ', ' ')
  const message = text === '(outputHelp)' ? 'a command is missing' : text
  const [, unknown = ''] = error.code === 'commander.unknownOption' ? (/'(.*)'/s.exec(text) ?? []) : []
  // Commander suggests the flag with the most similar letters.
  const suggestion = urlOptionHint(unknown, command) ?? rest.join(' ').replaceAll(/[()]/g, '').trim()
  return new CommandError(`${message}${message.endsWith('.') ? '' : '.'}`, {
    exitCode: exitCode.usage,
    hint: suggestion === '' ? `Try: ${help}` : `${suggestion} See ${help}`,
  })
}

/** The command or subcommand that the arguments name, up to the first word that is none. */
function calledCommand(program: Command, args: readonly string[]): Command {
  let command = program
  for (const word of args.filter((arg) => !arg.startsWith('-'))) {
    const called = command.commands.find((each) => each.name() === word)
    if (called === undefined) break
    command = called
  }
  return command
}
