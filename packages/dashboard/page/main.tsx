import { render } from 'preact'
import { App } from './app.tsx'
import './styles/base.css'
import './styles/layout.css'
import './styles/parts.css'
import { followOverview } from './state/live-overview.ts'
import { followAddress } from './state/navigation.ts'

const place = document.getElementById('app')
if (place === null) throw new Error('index.html has no element #app.')
followAddress()
followOverview()
render(<App />, place)
