import type { Writable } from 'node:stream'
import { CommanderError } from 'commander'
import { CommandError } from './command-error.ts'
import { executor } from './execute.ts'
import { type ExitCode, exitCode } from './exit-code.ts'
import { explainFailure } from './explain-failure.ts'
import { Output } from './output.ts'
import { buildProgram } from './program.ts'
import type { Secrets } from './secrets.ts'

export interface RunOptions {
  /** Without node and the script. */
  readonly args: readonly string[]
  readonly environment: NodeJS.ProcessEnv
  readonly stdout: Writable & { readonly isTTY?: boolean }
  readonly stderr: Writable
  /** Learns what must not be printed. */
  readonly secrets: Secrets
  readonly signal: AbortSignal
  /** Called when the command begins what has to be stopped: only `signal` may end it from now on. */
  readonly onStopsItself: () => void
}

/** The whole command, but for the process around it. Never rejects. */
export async function run({ args, environment, stdout, stderr, secrets, signal, onStopsItself }: RunOptions): Promise<ExitCode> {
  // What cannot be understood is repeated to the user, also if it is a URL in the wrong place.
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

/** What commander says, in our form: a line, and what to do. */
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
