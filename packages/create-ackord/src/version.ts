import { readFileSync } from 'node:fs'

/** The version of this package, and of all packages of Ackord: they are released together. */
export const version: string = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')).version
