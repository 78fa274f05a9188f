import { readFileSync } from 'node:fs'
import type { Writable } from 'node:stream'
import { Command, CommanderError } from 'commander'
import { benchCommand } from './commands/bench.ts'
import { cleanupCommand } from './commands/cleanup.ts'
import { demoCommand } from './commands/demo.ts'
import { discardCommand } from './commands/discard.ts'
import { doctorCommand } from './commands/doctor.ts'
import { listCommand } from './commands/list.ts'
import { migrateCommand } from './commands/migrate.ts'
import { parkCommand } from './commands/park.ts'
import { rearmCommand } from './commands/rearm.ts'
import { relayCommand } from './commands/relay.ts'
import { showCommand } from './commands/show.ts'
import { statusCommand } from './commands/status.ts'
import { CommandError, type ExitCode, exitCode } from './output/errors.ts'
import { explainFailure } from './output/explain-failure.ts'
import { Output } from './output/output.ts'
import type { Secrets } from './output/secrets.ts'
import { type Execute, executor } from './session.ts'

export interface ProgramOptions {
  readonly execute: Execute
  /** Where help is printed. */
  readonly write: (text: string) => void
}

export function buildProgram({ execute, write }: ProgramOptions): Command {
  const program = new Command('ackord')
    .description('Runs the Ackord demo, creates its tables, runs relays and manages parked records.')
    .version(versionOf(), '--version')
    .addHelpText(
      'after',
      '\nOptions can also be set in ackord.config.ts and by environment variables, which are shown in brackets in the help of each command.',
    )
    .addCommand(demoCommand(execute))
    .addCommand(migrateCommand(execute))
    .addCommand(relayCommand(execute))
    .addCommand(statusCommand(execute))
    .addCommand(listCommand(execute))
    .addCommand(showCommand(execute))
    .addCommand(parkCommand(execute))
    .addCommand(rearmCommand(execute))
    .addCommand(discardCommand(execute))
    .addCommand(cleanupCommand(execute))
    .addCommand(doctorCommand(execute))
    .addCommand(benchCommand(execute))
  for (const command of withAll(program)) {
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
  relay: ['ackord relay --from $POSTGRES_URL --to $RABBITMQ_URL', 'ackord relay --from $REDIS_URL --outbox lua --to $NATS_URL'],
  status: ['ackord status --store $POSTGRES_URL', 'ackord status --store $POSTGRES_URL --json | jq .totals'],
  list: ['ackord list --store $POSTGRES_URL --state parked', 'ackord list --store $POSTGRES_URL --destination order-events --limit 10'],
  show: ['ackord show 42 --store $POSTGRES_URL --data'],
  park: ["ackord park 42 43 --store $POSTGRES_URL --reason 'wrong price'"],
  rearm: ['ackord rearm 42 --store $POSTGRES_URL', 'ackord rearm --destination order-events --store $POSTGRES_URL'],
  discard: ["ackord discard 42 --store $POSTGRES_URL --reason 'test data'"],
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

function versionOf(): string {
  const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { readonly version: string }
  return version
}

export interface RunOptions {
  /** The arguments without node and the script. */
  readonly args: readonly string[]
  readonly environment: NodeJS.ProcessEnv
  readonly stdout: Writable & { readonly isTTY?: boolean }
  readonly stderr: Writable
  /** Learns the secrets that must not be printed. */
  readonly secrets: Secrets
  readonly signal: AbortSignal
  /** Called when the command starts work that must be stopped: only `signal` may end it from now on. */
  readonly onStopsItself: () => void
}

/** The whole command, except for the process around it. Never rejects. */
export async function run({ args, environment, stdout, stderr, secrets, signal, onStopsItself }: RunOptions): Promise<ExitCode> {
  // Invalid arguments are repeated to the user, even if one is a URL at the wrong position.
  for (const arg of args) if (arg.includes('://')) secrets.addUrl(arg)
  const output = new Output({ stdout, stderr, secrets, json: args.includes('--json'), terminal: stdout.isTTY === true })
  let code: ExitCode = exitCode.ok
  const onExit = (given: ExitCode) => {
    code = given
  }
  const execute = executor({ session: { output, secrets, signal }, environment, onExit, onStopsItself })
  try {
    // Without a command, users want to know what there is.
    const words = args.length === 0 ? ['--help'] : args
    await buildProgram({ execute, write: (text) => stdout.write(text) }).parseAsync(words, { from: 'user' })
    return code
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === 0) return exitCode.ok
    const failure = error instanceof CommanderError ? argumentError(error, args) : explainFailure(error)
    output.failure(failure)
    return failure.exitCode
  }
}

/** Commander's errors in our format: one line, and a hint. */
function argumentError(error: CommanderError, args: readonly string[]): CommandError {
  const [text = '', ...rest] = error.message.replace(/^error: /, '').split('\n')
  const suggestion = rest.join(' ').replaceAll(/[()]/g, '').trim()
  const command = args.find((arg) => !arg.startsWith('-'))
  const help = `ackord ${command === undefined || error.code === 'commander.unknownCommand' ? '' : `${command} `}--help`
  const message = text === '(outputHelp)' ? 'a command is missing' : text
  return new CommandError(`${message}${message.endsWith('.') ? '' : '.'}`, {
    exitCode: exitCode.usage,
    hint: suggestion === '' ? `Try: ${help}` : `${suggestion} See ${help}`,
  })
}
