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
    // Failures are thrown, and reported by the caller.
    command
      .exitOverride()
      .showSuggestionAfterError(true)
      .configureOutput({ writeOut: write, writeErr: () => {} })
  }
  return program
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
    await buildProgram({ execute, write: (text) => stdout.write(text) }).parseAsync(args, { from: 'user' })
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
