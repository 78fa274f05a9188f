/** The shape that `console` and pino share: fields first, text second. Payloads never go into the fields. */
export interface Logger {
  // An error goes under `err`: pino shows it there as it is, under any other name as {}.
  debug(fields: object, text: string): void
  info(fields: object, text: string): void
  warn(fields: object, text: string): void
  error(fields: object, text: string): void
}

export const silentLogger: Logger = { debug() {}, info() {}, warn() {}, error() {} }

/** `console` without its debug lines: what a service that configured nothing should see. */
export const consoleLogger: Logger = {
  debug() {},
  // The text first: it is what a person reads.
  info: (fields, text) => console.info(text, fields),
  warn: (fields, text) => console.warn(text, fields),
  error: (fields, text) => console.error(text, fields),
}
