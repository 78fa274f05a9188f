import { abortable } from '@ackord/core/internal'
import type { Command } from 'commander'
import type { ExitCode } from './output/errors.ts'
import type { Output } from './output/output.ts'
import type { Secrets } from './output/secrets.ts'
import { withWrittenNames } from './settings/option-errors.ts'
import { applySettings } from './settings/settings.ts'
import type { Suspension } from './suspension.ts'

/** Passed to every command. */
export interface Session {
  readonly output: Output
  readonly secrets: Secrets
  /** Aborted by Ctrl-C, SIGTERM and SIGHUP, and by an unhandled failure: the command stops its work, cleans up, and ends. Its reason is a `CommandError`. */
  readonly signal: AbortSignal
  /** Announces Ctrl-Z. Default: the terminal is not that of this process. */
  readonly suspension?: Suspension | undefined
}

/** Runs the work of a command. Resolves to the exit code of the process. */
type Work<Options> = (session: Session, options: Options, args: readonly string[]) => Promise<ExitCode>

interface ExecuteOptions<Options> {
  /** Whether the work observes the signal itself, because it has something to stop or to restore. Otherwise Ctrl-C ends it immediately. Default: false. */
  readonly stopsItself?: boolean | ((options: Options) => boolean) | undefined
}

/** Creates the action of a command: with its settings applied, and with a session. */
export type Execute = <Options extends object>(
  work: Work<Options>,
  options?: ExecuteOptions<Options>,
) => (...given: unknown[]) => Promise<void>

export interface ExecutorOptions {
  readonly session: Session
  readonly environment: NodeJS.ProcessEnv
  readonly onExit: (code: ExitCode) => void
  /** Called before work that handles the signal itself. */
  readonly onStopsItself: () => void
}

export function executor({ session, environment, onExit, onStopsItself }: ExecutorOptions): Execute {
  return <Options extends object>(work: Work<Options>, { stopsItself = false }: ExecuteOptions<Options> = {}) =>
    async (...given: unknown[]) => {
      // Commander passes the arguments, the options and the command.
      const command = given.at(-1) as Command
      const { signal } = session
      const written = await abortable(applySettings(command, environment), signal)
      const options: Options = command.opts()
      const observes = typeof stopsItself === 'function' ? stopsItself(options) : stopsItself
      if (observes) onStopsItself()
      try {
        const working = work(session, options, command.args)
        onExit(await (observes ? working : abortable(working, signal)))
      } catch (error) {
        throw withWrittenNames(error, command, written)
      }
    }
}
