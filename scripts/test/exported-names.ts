import { readdirSync, readFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import ts from 'typescript'
import { root } from './docs-blocks.ts'

export interface ExportedValue {
  /** The import specifier, such as `@ackord/core/middleware`. */
  readonly entry: string
  readonly name: string
  /** Whether its TSDoc has an `@example`. */
  readonly hasExample: boolean
}

/** The values that the packages publish, without those of `/internal` entries. */
export function exportedValues(): ExportedValue[] {
  return readdirSync(`${root}packages`).flatMap((folder) => {
    const { name, exports } = JSON.parse(readFileSync(`${root}packages/${folder}/package.json`, 'utf8'))
    return Object.entries<string | Record<string, string>>(exports)
      .filter(([entry, target]) => typeof target === 'object' && entry !== './internal')
      .flatMap(([entry, target]) => {
        const file = `${root}packages/${folder}/${(target as Record<string, string>)['@ackord/source']}`
        return [...valuesOf(file)].map(([value, hasExample]) => ({ entry: name + entry.slice(1), name: value, hasExample }))
      })
  })
}

/** The exported values of a file, and whether each has an example. */
function valuesOf(file: string): Map<string, boolean> {
  const values = new Map<string, boolean>()
  const source = ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.Latest, true)
  for (const statement of source.statements) {
    if (ts.isExportDeclaration(statement)) {
      if (statement.isTypeOnly || statement.moduleSpecifier === undefined) continue
      const { text } = statement.moduleSpecifier as ts.StringLiteral
      // Names of another package belong to the entry of that package.
      if (!text.startsWith('.')) continue
      const target = valuesOf(resolve(dirname(file), text))
      if (statement.exportClause === undefined) for (const [name, hasExample] of target) values.set(name, hasExample)
      else if (ts.isNamedExports(statement.exportClause)) {
        for (const { isTypeOnly, propertyName, name } of statement.exportClause.elements) {
          if (!isTypeOnly) values.set(name.text, target.get((propertyName ?? name).text) ?? false)
        }
      }
    } else if (isExportedValue(statement)) {
      const hasExample = ts.getJSDocTags(statement).some(({ tagName }) => tagName.text === 'example')
      for (const name of namesOf(statement)) values.set(name, (values.get(name) ?? false) || hasExample)
    }
  }
  return values
}

function isExportedValue(statement: ts.Statement): statement is ts.VariableStatement | ts.FunctionDeclaration | ts.ClassDeclaration {
  const declaresValue = ts.isVariableStatement(statement) || ts.isFunctionDeclaration(statement) || ts.isClassDeclaration(statement)
  return declaresValue && statement.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword) === true
}

function namesOf(statement: ts.VariableStatement | ts.FunctionDeclaration | ts.ClassDeclaration): string[] {
  if (!ts.isVariableStatement(statement)) return statement.name === undefined ? [] : [statement.name.text]
  return statement.declarationList.declarations.map(({ name }) => name.getText())
}
