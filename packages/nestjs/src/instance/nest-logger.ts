import { inspect } from 'node:util'
import type { Logger } from '@ackord/core'
import { Logger as NestLogger } from '@nestjs/common'

/** Writes to the logger of the Nest application, whichever it is, as `[Ackord]`. Fields follow the text on the same line. */
export function nestLogger(context = 'Ackord'): Logger {
  const logger = new NestLogger(context)
  return {
    debug: (fields, text) => logger.debug(lineOf(fields, text)),
    info: (fields, text) => logger.log(lineOf(fields, text)),
    warn: (fields, text) => logger.warn(lineOf(fields, text)),
    error: (fields, text) => logger.error(lineOf(fields, text)),
  }
}

function lineOf(fields: object, text: string): string {
  const { err, ...rest } = fields as { readonly err?: unknown }
  const shown = Object.keys(rest).length === 0 ? '' : ` ${inspect(rest, { breakLength: Infinity, compact: true })}`
  return `${text}${shown}${err === undefined ? '' : `\n${inspect(err)}`}`
}
