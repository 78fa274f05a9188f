import type { VNode } from 'preact'
import { session } from '../state/session.ts'
import { visibleText } from '../text/visible-text.ts'
import { Choice } from './choice.tsx'

/** Offers the stores, if there are several. */
export function StoreChoice({ store, onChoose }: { readonly store: string; readonly onChoose: (store: string) => void }): VNode | null {
  const stores = session.value?.stores ?? []
  if (stores.length < 2) return null
  return (
    <Choice id="store" label="Store" value={store} options={stores.map((name) => [name, visibleText(name)] as const)} onChoose={onChoose} />
  )
}
