import { systemRuntime } from '@ackord/core'
import type { CommandError } from '../output/errors.ts'
import type { Output } from '../output/output.ts'
import { printable, toSeconds } from '../output/text.ts'
import { formatDuration } from '../settings/duration.ts'
import type { Suspension } from '../suspension.ts'
import { Screen } from './screen.ts'

/** The contents of a refresh. */
export interface Refresh {
  /** For programs. */
  readonly object: object
  /** For people. Called again when the terminal changes its size. */
  readonly lines: () => readonly string[]
}

/** Shows one refresh after the other. */
export interface WatchView extends Disposable {
  refreshed(refresh: Refresh): void
  /** The store has not answered for a while. */
  waiting(): void
  /** `retryAfter`: milliseconds. */
  failed(error: CommandError, retryAfter: number): void
}

/** On a terminal the screen is redrawn; elsewhere each refresh is a block of lines, or a line of JSON. */
export function watchView(output: Output, interval: number, suspension: Suspension | undefined): WatchView {
  return output.redraws ? screenView(output, interval, suspension) : lineView(output)
}

function lineView(output: Output): WatchView {
  const logger = output.logger()
  return {
    refreshed({ object, lines }) {
      const time = new Date(systemRuntime.now()).toISOString()
      output.object({ time, ...object })
      if (!output.json) for (const line of [time, ...lines(), '']) output.line(line)
    },
    waiting() {},
    failed(error, retryAfter) {
      logger.warn({ err: error, retryAfter }, 'The store could not be read, and is tried again.')
    },
    [Symbol.dispose]() {},
  }
}

function screenView(output: Output, interval: number, suspension: Suspension | undefined): WatchView {
  const { colours } = output
  const screen = new Screen(output)
  let last: { readonly at: number; readonly refresh: Refresh } | undefined
  let problem: readonly string[] = []
  const lines = (more: string) => {
    if (last === undefined) return []
    return [colours.dim(`Refreshed at ${toSeconds(last.at)}${more}.`), ...problem, '', ...last.refresh.lines()]
  }
  const draw = (how: 'draw' | 'redraw' = 'draw') => {
    // Before the first refresh the command waits without a screen, like any other.
    if (last !== undefined) screen[how](lines(`, every ${formatDuration(interval)}; press Ctrl-C to end`))
  }
  const stopListening = output.on('resize', () => draw('redraw'))
  const endSuspension = suspension?.({ suspend: () => screen.close(), resume: () => draw('redraw') })
  return {
    refreshed(refresh) {
      last = { at: systemRuntime.now(), refresh }
      problem = []
      draw()
    },
    waiting() {
      problem = [colours.yellow('The store does not answer.')]
      draw()
    },
    failed(error, retryAfter) {
      const text = printable(output.masked(error.message.replaceAll(/\s+/g, ' ')))
      problem = [text, `Shown is the last answer. Trying again in ${formatDuration(retryAfter)}.`].map(colours.red)
      draw()
    },
    [Symbol.dispose]() {
      stopListening()
      endSuspension?.()
      screen.close()
      // The last contents stay in the scrollback.
      for (const line of lines('')) output.line(line)
    },
  }
}
