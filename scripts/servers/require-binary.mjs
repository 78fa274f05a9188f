// @ts-check

/**
 * @param {import('./kind.mjs').Kind} kind
 * @returns {string}
 */
export function requireBinary(kind) {
  const binary = kind.locate()
  if (binary === undefined) throw new Error(`not installed: ${kind.debianPackage} (its name in Debian)`)
  return binary
}
