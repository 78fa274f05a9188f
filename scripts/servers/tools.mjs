// @ts-check
import { canAptInstall } from './apt-install.mjs'
import { findBinary } from './find-binary.mjs'

/**
 * A program that tests run and that npm does not install.
 *
 * @typedef {object} Tool
 * @property {string} name as in `--only`
 * @property {string} debianPackage
 * @property {() => string | undefined} locate
 */

/** @type {Tool} */
export const promtool = { name: 'promtool', debianPackage: 'prometheus', locate: () => findBinary('promtool') }

/** @type {Tool} */
const chromium = { name: 'chromium', debianPackage: 'chromium', locate: () => findBinary('chromium') }

/** @type {readonly Tool[]} */
export const tools = [promtool, chromium]

/**
 * @typedef {{ tool: Tool } & ({ source: 'installed', binary: string } | { source: 'installable' } | { source: 'missing', reason: string })} ToolPlan
 */

/**
 * @param {Tool} tool
 * @returns {ToolPlan}
 */
export function planTool(tool) {
  const binary = tool.locate()
  if (binary !== undefined) return { tool, source: 'installed', binary }
  if (canAptInstall()) return { tool, source: 'installable' }
  return { tool, source: 'missing', reason: `not found: install ${tool.debianPackage} (its name in Debian)` }
}
