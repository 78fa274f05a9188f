import { readFileSync } from 'node:fs'

/** The version of this command. All packages of Ackord are released together. */
export const version: string = (
  JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { readonly version: string }
).version
