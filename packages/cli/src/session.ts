import { abortable } from '@ackord/core/internal'
import type { Command } from 'commander'
import type { ExitCode } from './output/errors.ts'
import type { Output } from './output/output.ts'
import type { Secrets } from './output/secrets.ts'
import { applySettings } from './settings/settings.ts'

/** What every command is given. */
export interface Session {
  readonly output: Output
  readonly secrets: Secrets
  /** Aborted by Ctrl-C, SIGTERM and SIGHUP, and by a failure that nobody waited for: the command stops what it does, cleans up, and ends. Its reason is a `CommandError`. */
  readonly signal: AbortSignal
}

/** Does what a command is for. Resolves to what the process ends with. */
type Work<Options> = (session: Session, options: Options, args: readonly string[]) => Promise<ExitCode>

interface ExecuteOptions {
  /** Whether the work looks at the signal itself, because it has something to stop or to remove. Otherwise Ctrl-C ends it where it is. Default: false. */
  readonly stopsItself?: boolean | undefined
}

/** Makes the action of a command: with its settings filled in, and with a session. */
export type Execute = <Options extends object>(work: Work<Options>, options?: ExecuteOptions) => (...given: unknown[]) => Promise<void>

export interface ExecutorOptions {
  readonly session: Session
  readonly environment: NodeJS.ProcessEnv
  readonly onExit: (code: ExitCode) => void
  /** Called before work that stops itself. */
  readonly onStopsItself: () => void
}

export function executor({ session, environment, onExit, onStopsItself }: ExecutorOptions): Execute {
  return (work, { stopsItself = false } = {}) =>
    async (...given) => {
      // Commander gives the arguments, the options and the command.
      const command = given.at(-1) as Command
      const { signal } = session
      await abortable(applySettings(command, environment), signal)
      if (stopsItself) onStopsItself()
      const working = work(session, command.opts(), command.args)
      onExit(await (stopsItself ? working : abortable(working, signal)))
    }
}
