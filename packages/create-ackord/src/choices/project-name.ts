import { InvalidChoiceError } from './invalid-choice-error.ts'

/** The rules of npm for the names of new packages. */
const validName = /^(?:@[a-z0-9~-][a-z0-9._~-]*\/)?[a-z0-9~-][a-z0-9._~-]*$/
const reserved = ['node_modules', 'favicon.ico']

/** Rejects names that npm would reject in a package.json. */
export function checkProjectName(name: string): string {
  if (validName.test(name) && name.length <= 214 && !reserved.includes(name)) return name
  const suggestion = suggestProjectName(name)
  const advice = suggestion === undefined ? '' : ` For example: --name ${suggestion}`
  throw new InvalidChoiceError(
    `'${name}' is not a valid name for a package: use lower-case letters, digits, '-', '.' and '_', beginning with a letter or a digit.${advice}`,
  )
}

/** The nearest valid name; `undefined` if nothing of the name can be used. */
export function suggestProjectName(name: string): string | undefined {
  const valid = name
    .toLowerCase()
    .replaceAll(/[^a-z0-9._~-]+/g, '-')
    .replaceAll(/^[._-]+|-+$/g, '')
    .slice(0, 214)
  return valid === '' || reserved.includes(valid) ? undefined : valid
}

/** A word that every broker accepts as the beginning of a name: `@acme/shop.orders` becomes `shop-orders`. */
export function resourcePrefix(name: string): string {
  const word = name
    .replace(/^@.*\//, '')
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-+|-+$/g, '')
  return word === '' ? 'orders' : word.slice(0, 60)
}
