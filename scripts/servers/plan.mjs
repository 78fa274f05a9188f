// @ts-check
import { describeAddress, splitUrls } from './address.mjs'
import { canAptInstall } from './apt-install.mjs'

/**
 * The source of a server, the first that applies: named by the environment, running at its default port, installed
 * here, installable by us. `missing` has the reason why none applies.
 *
 * @typedef {{ kind: import('./kind.mjs').Kind, note?: string } & (
 *   | { source: 'environment' | 'running', url: string }
 *   | { source: 'installed', binary: string }
 *   | { source: 'installable' }
 *   | { source: 'missing', reason: string }
 * )} Plan
 */

/**
 * Determines the source of a server. Starts and changes nothing.
 *
 * @param {import('./kind.mjs').Kind} kind
 * @param {NodeJS.ProcessEnv} environment
 * @returns {Promise<Plan>}
 */
export async function planServer(kind, environment) {
  const given = environment[kind.variable] || (kind.alias === undefined ? undefined : environment[kind.alias])
  if (given !== undefined && given !== '') return await planGiven(kind, given)

  const obstacle = await kind.obstacle?.(environment)
  if (obstacle !== undefined) return { kind, source: 'missing', reason: obstacle }

  /** @type {{ note?: string }} */
  const notes = {}
  if (kind.defaultUrl !== undefined) {
    const refusal = await kind.probe(kind.defaultUrl).catch(asError)
    if (refusal === undefined) return { kind, source: 'running', url: kind.defaultUrl }
    if (!isSilence(refusal)) notes.note = `127.0.0.1:${kind.defaultPort} answers but cannot be used: ${refusal.message}`
  }
  const binary = kind.locate()
  if (binary !== undefined) return { kind, source: 'installed', binary, ...notes }
  if (canAptInstall()) return { kind, source: 'installable', ...notes }
  const reason = `not found: install ${kind.debianPackage} (its name in Debian) or set ${kind.variable}`
  return { kind, source: 'missing', reason, ...notes }
}

/**
 * @param {import('./kind.mjs').Kind} kind
 * @param {string} given
 * @returns {Promise<Plan>}
 */
async function planGiven(kind, given) {
  let address = ''
  try {
    address = describeAddress(given, kind.defaultPort)
    for (const url of splitUrls(given)) await kind.probe(url)
    return { kind, source: 'environment', url: given }
  } catch (error) {
    const { message } = asError(error)
    const where = address === '' ? '' : ` points at ${address}, where no ${kind.name} can be used`
    return { kind, source: 'missing', reason: `${kind.variable}${where}: ${message}` }
  }
}

/** @param {Error} error */
function isSilence(error) {
  return 'code' in error && ['ECONNREFUSED', 'EADDRNOTAVAIL', 'ENETUNREACH'].includes(String(error.code))
}

/** @param {unknown} error */
function asError(error) {
  if (!(error instanceof Error)) return new Error(String(error))
  // A connection refused at both ::1 and 127.0.0.1 is an AggregateError without a message.
  if (error.message === '' && 'code' in error) error.message = String(error.code)
  return error
}
